"""Every release of every solver and of every party, recorded on one table and replayed on a neighbour.

Coins and released values are those of the first run. The exact values that go into the mechanisms may differ by what
each mechanism was told, and by no more; mechanisms and their order may not differ; nor may anything that is shown.
``benchmarks/audit/grey_box.py`` does the same with many more pairs.
"""

import math

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.central.data.operation import Holder
from sottovoce.central.kernels import passes
from sottovoce.central.sums import clipped_sums, samples
from sottovoce.central.sums.largest_eigenvalue import LargestEigenvalue
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.privacy.mechanisms.noisy_max import ExponentialMechanism
from sottovoce.privacy.mechanisms.randomized_response import RandomizedResponse
from sottovoce.randomness import Purpose, Streams
from support.grey_box import (
    ALL,
    CASES,
    JOINT,
    PERSON_CASES,
    calibrated_once,
    compared,
    jointly_compared,
    persons_compared,
)
from support.pairs import by_pairs
from support.replay import grey_box, recording, replaying

PAIRS = 6
# sampled steps are calibrated here, not judged: tests/contracts/test_accountants.py
pytestmark = pytest.mark.usefixtures("coarse_losses")


@pytest.fixture(scope="module")
def remembered_noise():
    with calibrated_once():
        yield


def checked(found):
    """Return the largest ratio of a finding that nothing is wrong with."""
    assert found.fault == found.refusal == ""
    assert found.n_releases
    assert found.largest <= 1.0
    return found.largest


@pytest.mark.parametrize(
    ("case", "adjacency"),
    [pytest.param(case, one, id=f"{case.name}, {one}") for case in CASES for one in case.adjacencies],
)
def test_every_solver(case, adjacency):
    rng = np.random.default_rng([CASES.index(case), case.adjacencies.index(adjacency)])
    assert max(checked(compared(case, adjacency, rng, seed)) for seed in range(PAIRS)) > case.reached


@pytest.mark.parametrize(("case", "adjacency"), by_pairs(PERSON_CASES, ALL))
def test_every_solver_that_takes_groups(case, adjacency):
    """On tables that differ in a whole person."""
    rng = np.random.default_rng([PERSON_CASES.index(case), ALL.index(adjacency), 7])
    largest = 0.0
    for seed in range(PAIRS - 1):
        found = persons_compared(case, adjacency, rng, seed)
        largest = max(largest, checked(found))
        # what the mechanisms cost together is what the receipt says
        both = found.tape.event, found.shown["event"]
        spent, promised = (accountant_for(event).epsilon(event, 1e-6) for event in both)
        assert spent <= promised * (1.0 + 1e-9)
    assert largest > 0.4 * case.reached  # the stated sensitivity is nearly what happens


@pytest.mark.parametrize("training", JOINT, ids=lambda training: training.name)
def test_every_mechanism_of_parties(training, remembered_noise):
    """One person is replaced at all parties at once, with their label where it is secret."""
    rng = np.random.default_rng(JOINT.index(training))
    for seed in range(PAIRS - 2):
        checked(jointly_compared(training, rng, seed))


# --- and it can fail --------------------------------------------------------------------------------------------------


def fit(X, y, **given):
    model = sv.DPLogisticRegression(**{
        "epsilon": 1.0, "delta": 1e-6, "data_norm": 1.0, "classes": [-1, 1], "adjacency": "add-remove", "n_public": 40,
        "solver": "scd", "solver_options": {"n_passes": 4}, **given,
    }).fit(X, y)  # fmt: skip
    return model.coef_


def neighbours():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 24))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = rng.choice([-1, 1], 40)
    return (X, y), (X[:-1], y[:-1])


def noise():
    return Streams().generator(Purpose.NOISE)


def test_a_sensitivity_stated_too_small_and_a_clip_that_a_kernel_does_not_keep(monkeypatch):
    found = grey_box(fit, *neighbours())
    assert found.holds and found.largest > 0.999
    honest, kernel = clipped_sums.clipped_mechanism, passes.accelerated_pass
    with monkeypatch.context() as patch:
        patch.setattr(clipped_sums, "clipped_mechanism", lambda size, *rest: honest(0.7 * size, *rest))
        assert 1.4 < grey_box(fit, *neighbours()).largest < 1.43
    clip = 9  # its place
    monkeypatch.setattr(
        passes, "accelerated_pass", lambda *given: kernel(*given[:clip], 1.5 * given[clip], *given[clip + 1 :])
    )
    found = grey_box(fit, *neighbours())
    assert found.largest > 1.3 and not found.holds


def test_a_release_that_is_skipped(monkeypatch):
    release = Holder.release

    def exact(self, operation, mechanism, noise):
        if isinstance(operation, LargestEigenvalue):
            return np.array([self.n_samples - 2.0 * mechanism.noise_std])  # what it is inflated by
        return release(self, operation, mechanism, noise)

    monkeypatch.setattr(Holder, "release", exact)
    found = grey_box(fit, *neighbours())
    assert found.largest <= 1.0
    assert "where the tape has" in found.fault or "went past the mechanisms" in found.fault


def uses(n):
    return [GridGaussian(1.0, 1.0, 2.0**-9).release(np.zeros(2, np.int64), noise())[0] for _ in range(n)]


def choosy(X, y):
    if X[-1, 0] <= np.abs(X[:-1, 0]).max():
        raise ArithmeticError("not solved")
    return 1.0


@pytest.mark.parametrize(
    ("run", "fault"),
    [
        (lambda X, y: [fit(X, y), X.sum()], "something went past the mechanisms"),
        # another number of passes, another noise
        (lambda X, y: fit(X, y, solver_options={"n_passes": len(X) // 8}), "where the tape has GridGaussian"),
        (lambda X, y: uses(len(X)), "1 of 40 entries of the tape were not asked for"),
        (lambda X, y: uses(80 - len(X)), "entry 40: a use of GridGaussian.* beyond the end of the tape"),
        (lambda X, y: choosy(-X[::-1] if len(X) < 40 else np.vstack([X, [[9.0] * 24]]), y),
         "one table ends with 'a result', its neighbour with 'ArithmeticError: not solved'"),
        (lambda X, y: noise().standard_normal(2) * 0, "noise that went past the mechanisms: standard_normal"),
        (lambda X, y: len(samples.poisson_sample(len(X) - 9 * (len(X) < 40), 0.3, noise())) * 0,
         "a sample of 30 rows at rate 0.3 where the tape has 40"),
    ],
)  # fmt: skip
def test_what_depends_on_the_table_is_told(run, fault):
    found = grey_box(run, *neighbours())
    assert not found.holds
    with pytest.raises(AssertionError, match=fault):
        raise AssertionError(found.fault)


def test_one_refusal_for_both_tables_is_no_fault():
    table, _ = neighbours()
    both = grey_box(choosy, *([(-np.abs(table[0]), table[1])] * 2))
    assert (both.fault, both.refusal) == ("", "ArithmeticError: not solved")


def test_choices_and_labels_by_hand():
    """Ratios that are known: a score that moves by 3 of 2, two labels of one."""

    def run(scores, labels):
        place, _ = ExponentialMechanism(1.0, 2.0).select(np.array(scores), noise())
        answers, _ = RandomizedResponse(1.0).release(np.array(labels), noise())
        return [place, answers]

    found = grey_box(run, ([0, 5, 0], [1.0, -1.0]), ([2, 4, 0], [1.0, 1.0]))
    assert (found.distances, found.fault) == ([1.5, 1.0], "")
    assert grey_box(run, ([0, 5, 0], [1.0, -1.0]), ([0, 5, 0], [-1.0, 1.0])).largest == 2.0


@pytest.mark.parametrize("factor", [0.0, 1.0, 30.0])
def test_released_values_are_those_of_the_tape(factor):
    """Honest, without noise, or far from the value; the same in the replay."""
    mechanism = GridGaussian(1.0, 1.0, 2.0**-20)
    with recording(noise=[factor], seed=1) as tape:
        first, event = mechanism.release(np.full(2000, 2**20), noise())
    with replaying(tape) as player:
        second, _ = mechanism.release(np.full(2000, 2**20 + 1), noise())
    np.testing.assert_array_equal(first, second)
    assert event == mechanism.event == tape.event
    assert player.distances == [pytest.approx(math.sqrt(2000) * 2.0**-20)]
    assert first.std() == pytest.approx(factor, rel=0.1)


def test_a_poisson_sample_is_replayed_without_the_absent_row():
    with recording(sampled=(20,)) as tape:
        samples.poisson_sample(50, 0.3, Streams().generator(Purpose.SAMPLING))
    with replaying(tape, absent=20) as player:
        again = samples.poisson_sample(49, 0.3, Streams().generator(Purpose.SAMPLING))
    ((sample,), rows) = tape.entries, tape.entries[0].rows
    assert 20 in sample.rows and not player.fault
    np.testing.assert_array_equal(again, [row - (row > 20) for row in rows if row != 20])
