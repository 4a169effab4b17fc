"""``sottovoce vertical train`` and ``predict``: train over the sites of a federation, and score people over them."""

import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.cli import _options as cli
from sottovoce.cli._echo import echo
from sottovoce.cli._output import print_json, print_rows, write_or_keep
from sottovoce.cli.vertical._runs import TIMEOUT, WAIT, do_run
from sottovoce.cli.vertical._training import (
    MODELS,
    HowToTrain,
    estimator_parameters,
    print_comparison,
    print_training,
)
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.vertical import Helper, Party
from sottovoce.vertical.estimators.receipts import GUARANTEE
from sottovoce.vertical.flare.hardening.envelope import LedgerHeads
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.programs import PREDICTIONS, make_estimator, open_home, refuse_exact
from sottovoce.vertical.flare.runs import RunSpec, find_run, new_run_name, read_progress, why_not_resumed
from sottovoce.vertical.flare.site import Site

_PARTIES = "Parties"


@cli.command
def train(
    *,
    kit: Path = cli.argument("KIT", "The coordinator's folder that `sottovoce vertical provision` made."),
    model: cli.ModelKind | None = cli.option("--model", "What to train.", metavar="MODEL"),
    epsilon: float | None = MODELS.option("epsilon"),
    training: HowToTrain,
    resume: str | None = cli.option(
        "--resume", "Go on with a run that was cut off: its name. Nothing is charged twice.", _PARTIES
    ),
    accept_ledger: str | None = cli.option(
        "--accept-ledger", "Take PARTY's ledger as it is, once: it was lost, and its owner has settled what it forgot.",
        _PARTIES, metavar="PARTY",
    ),
    wait: float = WAIT,
    timeout: float | None = cli.option("--timeout", "Seconds that a party has for one answer. Default: 120.", _PARTIES),
    quiet: bool = cli.flag("--quiet", "No progress."),
    as_json: bool = cli.JSON,
) -> None:  # fmt: skip
    """Train over the columns of all sites of a federation: this command is the coordinator, to which parties connect.

    The coordinator's own table, labels, schema and ledger are those of KIT/site.toml. What the run leaves is in
    KIT/runs/RUN; each party keeps its own part of the model.
    """
    home = Kit.open(kit, "coordinator")
    site = Site.read(home)
    if resume is None:
        spec = _new(site, model, epsilon, training, 120.0 if timeout is None else timeout)
    else:
        given = {"model": model, "epsilon": epsilon, **vars(training), "fit_intercept": not training.fit_intercept}
        spec = _old(home, resume, timeout, given)
    open_home(site, "train")  # a fault of its own table is told before a party is asked for anything
    if accept_ledger is not None:
        entry = LedgerHeads(home.state).forget(accept_ledger)
        echo(
            f"{accept_ledger}: its next ledger is taken as it is; the last entry known of the one before: {entry}",
            err=True,
        )
    folder = home.runs / spec.run
    state = do_run(home, spec, again=resume is not None, wait=wait, quiet=quiet or as_json)
    guarantee = Guarantee.from_json((folder / GUARANTEE).read_text(encoding="utf-8"))
    if as_json:
        print_json({**state, "folder": str(folder)})
        return
    if state["converged"] is False:
        echo("note: the training did not converge; raise --max-iter.", err=True)
    print_training(
        [("run", spec.run), ("model", f"{spec.model}, {state['model_name']}"),
         ("people trained on", f"{state['people']:,}")],
        state["training_rounds"], state["bytes_up"], state["bytes_down"], guarantee, state["given_away"],
    )  # fmt: skip
    echo(f"Results: {folder}")
    echo(f"Predictions: sottovoce vertical predict {kit} {spec.run} --out FILE")


@cli.command
def predict(
    kit: Path = cli.argument("KIT", "The coordinator's folder that `sottovoce vertical provision` made."),
    run: str = cli.argument("RUN", "The run that trained the model; see `sottovoce vertical status KIT`."),
    out: Path = cli.output(
        "--out", "CSV file for the predictions, with the probability or the score of a class.", default=cli.REQUIRED
    ),
    labels: bool = cli.flag(
        "--labels", "Compare with the coordinator's own labels of these people, and print how good."
    ),
    wait: float = WAIT,
    timeout: float = TIMEOUT,
    quiet: bool = cli.flag("--quiet", "No progress."),
    as_json: bool = cli.JSON,
) -> None:
    """Score the people of the sites' [scoring] tables by a model that was trained before.

    Each party keeps its part of the model and sends one number a person, its own score: an exact sum over that
    person's columns, which no statement covers. Each owner allows it or not, in its site.toml.
    """
    home = Kit.open(kit, "coordinator")
    site = Site.read(home)
    folder = find_run(home.runs, run)
    trained = RunSpec.read(folder)
    if trained.purpose != "train":
        raise ParameterError(f"RUN {run}: this run scores people; give the one that trained the model.")
    if site.scoring_table is None:
        raise ParameterError(
            f'{home.site_file}: there are no people to be scored. Name their table: [scoring] with table = "FILE".'
        )
    open_home(site, "score", labels=labels)  # a fault of its own table is told before a party is asked for anything
    spec = RunSpec(
        run=new_run_name(), purpose="score", model=trained.model, trained=trained.run, labels=labels, timeout=timeout,
    )  # fmt: skip
    state = do_run(home, spec, wait=wait, quiet=quiet or as_json)
    text = (home.runs / spec.run / PREDICTIONS).read_text(encoding="utf-8")
    write_or_keep({out: text}, private=(out,))
    if as_json:
        print_json({**state, "out": str(out)})
        return
    print_rows("Predictions", [
        ("run", spec.run), ("model of run", trained.run), ("people", f"{state['people']:,}"),
        ("bytes up, from the parties", f"{state['bytes_up']:,}"), ("file", str(out)),
    ])  # fmt: skip
    if state["comparison"] is not None:
        n, local, joint = (state["comparison"][key] for key in ("n_samples", "local", "joint"))
        print_comparison(f"On {n:,} people", local, joint, home.name)


def _new(
    site: Site, model: cli.ModelKind | None, epsilon: float | None, training: HowToTrain, timeout: float
) -> RunSpec:
    """Return a new run, whose parameters are known to be good."""
    why = "is missing: say what to train, or give --resume RUN."
    kind = cli.require("--model", model, f"--model {why} One of {', '.join(cli.ModelKind)}.")
    spent = cli.require(
        "--epsilon", epsilon, "--epsilon is missing: the privacy budget, or inf to train without noise."
    )
    parameters = {"epsilon": spent, **estimator_parameters(kind, spent, training)}
    spec = RunSpec(
        run=new_run_name(), model=str(kind), timeout=timeout,
        parameters={name: value for name, value in parameters.items() if value is not None},
        with_helpers=training.may_be_joint and spent != math.inf,
    )  # fmt: skip
    _check(spec, site)
    if math.isinf(spent):
        refuse_exact(site)
    return spec


def _check(spec: RunSpec, site: Site) -> None:
    """Refuse parameters that no parties could make good; what the others are like is not known here."""
    names = site.kit.federation.names
    columns = [site.schema.n_features, *[1] * (len(names) - 1)]
    bound = site.schema.data_norm
    if "secure" in (spec.parameters.get("mechanism"), spec.parameters.get("aggregation")) and site.computing is None:
        raise ParameterError(
            f"{site.kit.site_file}: joint training needs the section [secure]: whom this site computes with, and "
            "where they reach it. sottovoce vertical provision wrote an example into site.toml."
        )
    computing, helpers = site.computing, site.kit.federation.helpers if spec.with_helpers else ()
    parties = [
        Helper(name, computing=computing) if name in helpers
        else Party(np.zeros((1, width)), name=name, data_norm=bound, data_bound=1.0, computing=computing)
        for name, width in zip(names, columns, strict=True)
        if name == names[0] or name in spec.sites(site.kit.federation)
    ]  # fmt: skip
    with warnings.catch_warnings(action="ignore"):  # about one person
        estimator = make_estimator(spec, site)
        if "engine" in estimator.get_params():
            estimator.set_params(engine="auto")  # who has which is not known here
        estimator.plan(parties)


def _old(kit: Kit, name: str, timeout: float | None, given: dict[str, Any]) -> RunSpec:
    cli.refuse_options("is that of the run: with --resume, leave it out", given)
    folder = find_run(kit.runs, name)
    spec = RunSpec.read(folder)
    if spec.purpose != "train":
        raise ParameterError(f"--resume {name}: this run scores people. Begin it again: sottovoce vertical predict.")
    lost = why_not_resumed(read_progress(folder))
    if lost:
        raise ParameterError(f"--resume {name}: {lost} Begin again, without --resume.")
    if timeout is not None:
        spec = replace(spec, timeout=timeout)
    return spec
