"""``sottovoce vertical predict``: score people over the sites of a federation."""

from pathlib import Path

from sottovoce._files import check_writable
from sottovoce.cli._options import JSON, ForceOption, argument, flag, option
from sottovoce.cli._output import print_json, print_rows, write_or_keep
from sottovoce.cli.vertical._runs import TIMEOUT, WAIT, do_run
from sottovoce.cli.vertical._shown import print_comparison
from sottovoce.exceptions import ParameterError
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.programs import PREDICTIONS, open_home
from sottovoce.vertical.flare.runs import RunSpec, find_run, new_run_name
from sottovoce.vertical.flare.site import Site


def predict(
    kit: Path = argument("KIT", "The coordinator's folder that `sottovoce vertical provision` made."),
    run: str = argument("RUN", "The run that trained the model; see `sottovoce vertical status KIT`."),
    out: Path = option(
        "--out", "CSV file for the predictions, with the probability or the score of a class.", default=...
    ),
    force: ForceOption = False,
    labels: bool = flag("--labels", "Compare with the coordinator's own labels of these people, and print how good."),
    wait: float = WAIT,
    timeout: float = TIMEOUT,
    quiet: bool = flag("--quiet", "No progress."),
    as_json: bool = JSON,
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
    check_writable("--out", out, overwrite=force)
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
