"""The small federation of the tests of failures: three sites, and what its runs leave in one process."""

import dataclasses
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from support.federation import Columns, Federation, Helps
from support.ports import free_ports

ROUNDS = 80
EPSILON, DELTA, RADIUS = 1.0, 1e-6, 5.0
FIRST_PORT = free_ports(50)[0]  # of joint computations: ten for each site
_BALL = ("--model", "sparse-logistic", "--radius", RADIUS, "--timeout", 20, "--json")
RUN = (*_BALL, "--epsilon", "inf", "--tol", "1e-300", "--max-iter", ROUNDS)  # in many rounds, for `open_sites`
PRIVATE = (*_BALL, "--epsilon", EPSILON, "--delta", DELTA, "--n-steps", 8, "--labels-public")  # for `sites`
_ACCOUNT = """
[budget]
ledger = "sqlite:///ledger.db"
dataset = "people"
[allow]
answers = ["alignment", "frank-wolfe", "local-models", "secure", "score"]
[trial]
random_state = {seed}
"""


def open_sites() -> dict[str, Columns]:
    """Return the coordinator and two parties without accounts, which train without noise."""
    allowed = '[allow]\nanswers = ["exact", "columns", "foreign-weights"]\n'
    return {name: Columns(X=each.X, y=each.y, settings=allowed) for name, each in sites().items()}


def sites(n_people: int = 60) -> dict[str, Columns]:
    """Return the coordinator and two parties with accounts, with noise that can be repeated."""
    rng = np.random.default_rng(17)
    X = rng.random((n_people, 9))
    y = X.sum(axis=1) + rng.normal(scale=0.3, size=n_people) > 4.5
    return {
        "lab": Columns(X=X[:, :3], y=y, settings="[trial]\nrandom_state = 3\n"),
        "north": Columns(X=X[:, 3:5], settings=_ACCOUNT.format(seed=1)),
        "bank": Columns(X=X[:, 5:], settings=_ACCOUNT.format(seed=2)),
    }


def joint_sites(
    *names: str, helpers: tuple[str, ...] = (), n_people: int = 200, timeout: float = 60.0, seeded: bool = True
) -> dict[str, Columns | Helps]:
    """Return sites that compute with each other, the coordinator first; each party has two columns and an account."""
    rng = np.random.default_rng(23)
    X = rng.random((n_people, 2 * len(names)))
    y = X.sum(axis=1) + rng.normal(scale=0.3, size=n_people) > len(names)
    everybody = (*names, *helpers)
    made: dict[str, Columns | Helps] = {}
    for number, name in enumerate(everybody):
        partners = ", ".join(f'"{other}"' for other in everybody if other != name)
        settings = f"""
[secure]
partners = [{partners}]
host = "localhost"
ports = [{FIRST_PORT + 10 * number}, {FIRST_PORT + 10 * number + 9}]
timeout = {timeout}
"""
        settings += f"[trial]\nrandom_state = {number}\n" if seeded else ""
        if name in helpers:
            made[name] = Helps(settings=settings)
            continue
        account = "" if number == 0 else '[budget]\nledger = "sqlite:///ledger.db"\ndataset = "people"\n'
        columns = X[:, 2 * number : 2 * number + 2]
        made[name] = Columns(X=columns, y=y if number == 0 else None, settings=settings + account)
    return made


def make_ledgers(federation: Federation) -> None:
    """Give both parties accounts for many runs."""
    for name in federation.names[1:]:
        if name not in federation.helpers:
            federation.make_ledger(name, epsilon=1000.0, delta=1e-3)


def in_process(federation: Federation, estimator: Any) -> dict[str, Any]:
    """Fit an estimator to the same sites in this process, without accounts; return the parts of the model by site.

    With one thread for each product, as the sites: with two it adds up in another order, in any process.
    """
    from sottovoce.vertical.coordinator.parties import InProcessParties
    from sottovoce.vertical.flare.kit import Kit
    from sottovoce.vertical.flare.site import Site
    from sottovoce.vertical.flare.site_file import Caps

    parties = []
    for name in federation.names:
        site = Site.read(Kit.open(federation.kit(name)))
        answers = None if site.is_helper else site.allowed("train")
        here = dataclasses.replace(site, budget=None, caps=Caps(), answers=answers, computing=None)
        parties.append(here.open_party("train"))
    with threadpool_limits(1):
        estimator.fit(InProcessParties(parties))
    return {party.name: party.part(estimator.model_) for party in parties if not party.is_helper}


def model_of(federation: Federation, run: tuple[object, ...]) -> dict[str, Any]:
    """Return the parts that `RUN`, or `PRIVATE`, leaves in one process."""
    from sottovoce.vertical import VerticalSparseLogisticRegression

    private = {"epsilon": EPSILON, "delta": DELTA, "n_steps": 8, "labels_public": True}
    exact = {"epsilon": float("inf"), "tol": 1e-300, "max_iter": ROUNDS}
    holder = {"classes": ["no", "yes"], "label_holder": federation.names[0]}
    given: Any = {"radius": RADIUS, **holder, **(private if run is PRIVATE else exact)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # as planned
        return in_process(federation, VerticalSparseLogisticRegression(**given))


def check_model(federation: Federation, run: Path, expected: dict[str, Any]) -> None:
    """Check that a run left the expected parts, bit for bit."""
    state = json.loads((run / "status.json").read_text())
    assert state["phase"] == "done", state
    for name, part in expected.items():
        kept = federation.parts(name)[state["model_name"]]
        assert np.array_equal(kept["coef"], part.coef), name
        assert kept["intercept"] == part.intercept, name
