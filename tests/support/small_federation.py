"""The small federation of the tests of failures: three sites, and what its runs leave in one process."""

import dataclasses
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from sottovoce.vertical import VerticalSparseLogisticRegression, align
from sottovoce.vertical.coordinator.parties import InProcessParties
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.site import Caps, Site
from support.federation import Columns, Federation
from support.ports import free_ports

STEPS = 80
EPSILON, DELTA, RADIUS = 1.0, 1e-6, 5.0
FIRST_PORT = free_ports(50)[0]  # of joint computations: ten for each site
_BALL = ("--model", "sparse-logistic", "--radius", RADIUS, "--timeout", 20, "--json")
RUN = (*_BALL, "--epsilon", "inf", "--tol", "1e-300", "--max-iter", STEPS)  # for `open_sites`
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
    allowed = '[allow]\nanswers = ["exact"]\n'
    return {name: Columns(X=each.X, y=each.y, settings=allowed) for name, each in sites().items()}


def sites() -> dict[str, Columns]:
    """Return the coordinator and two parties with accounts, with noise that can be repeated."""
    rng = np.random.default_rng(17)
    X = rng.random((60, 9))
    y = X.sum(axis=1) + rng.normal(scale=0.3, size=60) > 4.5
    return {
        "lab": Columns(X=X[:, :3], y=y, settings="[trial]\nrandom_state = 3\n"),
        "north": Columns(X=X[:, 3:5], settings=_ACCOUNT.format(seed=1)),
        "bank": Columns(X=X[:, 5:], settings=_ACCOUNT.format(seed=2)),
    }


def joint_sites(*names: str, helper: str, timeout: float) -> dict[str, Columns]:
    """Return sites that compute with each other, the coordinator first; each but the helper has two columns."""
    rng = np.random.default_rng(23)
    X = rng.random((200, 2 * len(names)))
    y = X.sum(axis=1) + rng.normal(scale=0.3, size=200) > len(names)
    everybody = (*names, helper)
    made = {}
    for number, name in enumerate(everybody):
        settings = f"""
[secure]
partners = {[other for other in everybody if other != name]}
host = "localhost"
ports = [{FIRST_PORT + 10 * number}, {FIRST_PORT + 10 * number + 9}]
timeout = {timeout}
[trial]
random_state = {number}
"""
        if name not in (names[0], helper):
            settings += '[budget]\nledger = "sqlite:///ledger.db"\ndataset = "people"\n'
        columns = None if name == helper else X[:, 2 * number : 2 * number + 2]
        made[name] = Columns(X=columns, y=None if number else y, settings=settings)
    return made


def make_ledgers(federation: Federation) -> None:
    """Give both parties accounts for many runs."""
    for name in federation.names[1:]:
        if name not in federation.helpers:
            federation.ledger(name).create(
                "people", epsilon=1000.0, delta=1e-3, adjacency="replace-one", allow_nonprivate=True
            )


def parties_of(federation: Federation, purpose: str = "train", *, aligned: bool = False) -> Any:
    """Return the parties of the same sites in this process, without accounts."""
    parties = []
    for name in federation.names:
        site = Site.read(Kit.open(federation.kit(name)))
        answers = None if site.is_helper else site.allowed(purpose)
        here = dataclasses.replace(site, budget=None, caps=Caps(), answers=answers, computing=None)
        parties.append(here.open_party(purpose, labels=purpose == "score"))
    return align(parties, duplicates="drop") if aligned else InProcessParties(parties)


def in_process(federation: Federation, estimator: Any, *, aligned: bool = False) -> dict[str, Any]:
    """Fit an estimator to the same sites in this process; return the parts of the model by site.

    With one thread for each product, as the sites: with two it adds up in another order, in any process.
    """
    parties = parties_of(federation, aligned=aligned)
    with threadpool_limits(1):
        estimator.fit(parties)
    return {name: party.parts[estimator.model_] for name, party in parties.here.items() if not party.is_helper}


def model_of(federation: Federation, run: tuple[object, ...]) -> dict[str, Any]:
    """Return the parts that `RUN`, or `PRIVATE`, leaves in one process."""
    private = {"epsilon": EPSILON, "delta": DELTA, "n_steps": 8, "labels_public": True}
    exact = {"epsilon": float("inf"), "tol": 1e-300, "max_iter": STEPS}
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
