"""dp-recorder of Oblivious (Re:cord-play, arXiv:2602.17454) judges our solvers: control flow, sensitivity and budget.

`tests/support/replay.py` knows where noise goes through; here it hands each use of a mechanism to their auditor, which
records a run, replays it on a neighbour and compares. What all recorded mechanisms cost together is composed by their
privacy loss distributions and compared with the receipt. ``make outside`` runs this.
"""

from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest

from sottovoce.central.sums import clipped_sums
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.privacy.mechanisms.noisy_max import ExponentialMechanism
from support.grey_box import CASES, pair_of
from support.replay import Recorder, Tape, _in_place

primitives = pytest.importorskip("dp_recorder.auditing.audit_primitives", reason="`make outside` has dp-recorder")
pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")

# their replay has no Poisson samples, and knows no row that keeps its place without contributing
SEEN = [case for case in CASES if not case.is_sampled and not case.in_place and "Published" not in case.name]
EPSILON, DELTA = 1.0, 1e-6


class Honest:
    """What a mechanism does, under a name that is the same in a run and in its replay."""

    def __init__(self, does: Callable[[], Any]) -> None:
        self.does = does

    def __repr__(self) -> str:
        return "honest"

    def __deepcopy__(self, memo: Any) -> "Honest":
        return self


def in_units(mechanism: Any, exact: Any) -> Any:
    """Return a value in units of the sensitivity that its mechanism was told."""
    if isinstance(mechanism, ExponentialMechanism):
        return exact / mechanism.score_range
    return exact.astype(np.float64) * (mechanism.tick / mechanism.l2_sensitivity)


def cost(mechanism: Any, **_: Any) -> Any:
    """Return the privacy loss distribution of a use, by Google's library alone."""
    if isinstance(mechanism, GridGaussian):
        return pld.from_gaussian_mechanism(mechanism.noise_multiplier, value_discretization_interval=1e-3)
    return None  # of a choice it knows the epsilon only, which composes to more than what its bounded range does


def farthest(one: Any, other: Any) -> float:
    return float(np.linalg.norm(one - other))


def spread(one: Any, other: Any) -> float:
    return float(np.ptp(one - other))


def _use(exact: Any, mechanism: Any, sensitivity: float, honest: Honest) -> Any:
    return honest.does()


def _audited(metric: Any) -> Any:
    return primitives.audit_spec("mechanism", "exact", "sensitivity", metric, cost)(_use)


NUMBERS, SCORES = _audited(farthest), _audited(spread)


class Judged(Recorder):
    """Hands each use of a mechanism to the auditor in whose context it runs."""

    def release(self, mechanism: Any, exact: Any, honest: Any) -> Any:
        use = SCORES if isinstance(mechanism, ExponentialMechanism) else NUMBERS
        if isinstance(mechanism, ExponentialMechanism):
            kept = exact.copy()
            honest()  # brings up to date what the scores follow from, in a replay too
            exact = kept
        return use(in_units(mechanism, exact), mechanism, 1.0, Honest(honest))


@contextmanager
def judged(auditor: Any, seed: int):
    with _in_place(Judged(Tape(seed))), auditor:
        yield


def audited(case: Any, adjacency: str, seed: int) -> Any:
    """Return their auditor after a record and a replay that show the same."""
    rng = np.random.default_rng([CASES.index(case), case.adjacencies.index(adjacency), seed])
    table, neighbour, _ = pair_of(case, adjacency, rng)
    run = case.run(case.public(rng, adjacency=adjacency, n_public=len(table[1]), epsilon=EPSILON))
    auditor = primitives.Auditor()
    with judged(auditor, seed):
        shown = run(*table)
    auditor.set_replay()
    with judged(auditor, seed):
        again = run(*neighbour)
    assert auditor._cursor == len(auditor.log)
    assert repr(shown) == repr(again)
    return auditor


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("case", SEEN, ids=lambda case: case.name)
def test_no_release_moves_farther_than_it_says_and_none_depends_on_rows(case, seed):
    for adjacency in case.adjacencies:
        auditor = audited(case, adjacency, seed)
        auditor.validate_records()
        if auditor.compute_overall_pld() is not None:
            assert auditor.get_overall_current_guarantee(DELTA) <= EPSILON * 1.01  # of their grid


@pytest.mark.parametrize(("factor", "words"), [(0.7, "Sens"), (1.0, "")])
def test_it_notices_a_sensitivity_that_is_too_small(monkeypatch, factor, words):
    honest = clipped_sums.clipped_mechanism
    monkeypatch.setattr(clipped_sums, "clipped_mechanism", lambda size, *rest: honest(factor * size, *rest))
    case = next(case for case in SEEN if case.name == "scd, logistic")
    with pytest.raises(AssertionError, match=words) if words else nullcontext():
        audited(case, "replace-one", 0).validate_records()


def test_it_notices_a_budget_that_is_spent_twice():
    case = next(case for case in SEEN if case.name == "scd, logistic")
    auditor = audited(case, "zero-out", 0)
    auditor.log += auditor.log
    auditor.compute_overall_pld()
    assert auditor.get_overall_current_guarantee(DELTA) > EPSILON * 1.3
