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
from sottovoce.central.sums import clipped_sums
from sottovoce.central.sums.largest_eigenvalue import LargestEigenvalue
from sottovoce.exceptions import AuditError
from sottovoce.papers.dp_scd import kernels as dp_scd_kernels
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
EACH = pytest.mark.parametrize(
    ("case", "adjacency"),
    [pytest.param(case, one, id=f"{case.name}, {one}") for case in CASES for one in case.adjacencies],
)


@pytest.fixture(scope="module")
def remembered_noise():
    with calibrated_once():
        yield


@EACH
def test_every_solver(case, adjacency):
    rng = np.random.default_rng([CASES.index(case), case.adjacencies.index(adjacency)])
    largest = 0.0
    for seed in range(PAIRS):
        found = compared(case, adjacency, rng, seed)
        assert found.fault == ""
        assert found.refusal == ""
        assert found.largest <= 1.0
        assert found.n_releases
        assert found.tape.draws == ()  # no noise goes past the mechanisms
        largest = max(largest, found.largest)
    assert largest > case.reached


@pytest.mark.parametrize(("case", "adjacency"), by_pairs(PERSON_CASES, ALL))
def test_every_solver_that_takes_groups(case, adjacency):
    """On tables that differ in a whole person."""
    rng = np.random.default_rng([PERSON_CASES.index(case), ALL.index(adjacency), 7])
    largest = 0.0
    for seed in range(PAIRS - 1):
        found = persons_compared(case, adjacency, rng, seed)
        assert found.fault == found.refusal == ""
        assert found.largest <= 1.0
        assert found.n_releases
        assert found.tape.draws == ()
        # what the mechanisms cost together is what the receipt says
        both = found.tape.event, found.shown["event"]
        spent, promised = (accountant_for(event).epsilon(event, 1e-6) for event in both)
        assert spent <= promised * (1.0 + 1e-9)
        largest = max(largest, found.largest)
    assert largest > 0.4 * case.reached  # the stated sensitivity is nearly what happens


@pytest.mark.parametrize("training", JOINT, ids=lambda training: training.name)
def test_every_mechanism_of_parties(training, remembered_noise):
    """One person is replaced at all parties at once, with their label where it is secret."""
    rng = np.random.default_rng(JOINT.index(training))
    for seed in range(PAIRS):
        found, ratio = jointly_compared(training, rng, seed)
        assert found.fault == ""
        assert found.refusal == ""
        assert found.tape.draws == ()
        assert found.n_releases
        assert ratio <= 1.0


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


def test_a_sound_fit_is_found_sound():
    found = grey_box(fit, *neighbours())
    assert found.holds
    assert found.largest > 0.999


def test_a_sensitivity_stated_too_small(monkeypatch):
    honest = clipped_sums.clipped_mechanism
    monkeypatch.setattr(clipped_sums, "clipped_mechanism", lambda size, *rest: honest(0.7 * size, *rest))
    assert 1.4 < grey_box(fit, *neighbours()).largest < 1.43


def test_a_clip_that_a_kernel_does_not_keep(monkeypatch):
    kernel = passes.accelerated_pass

    def careless(*given):
        given = list(given)
        given[9] *= 1.5  # the clip
        kernel(*given)

    monkeypatch.setattr(passes, "accelerated_pass", careless)
    found = grey_box(fit, *neighbours())
    assert found.largest > 1.3
    assert not found.holds


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


def test_a_result_that_was_never_released(monkeypatch):
    found = grey_box(lambda X, y: [fit(X, y), X.sum()], *neighbours())
    assert "went past the mechanisms" in found.fault


def test_steps_that_depend_on_the_table(monkeypatch):
    found = grey_box(lambda X, y: fit(X, y, solver_options={"n_passes": len(X) // 8}), *neighbours())
    assert "where the tape has GridGaussian" in found.fault  # another number of passes, another noise

    def uses(X, y, count):
        noise = Streams().generator(Purpose.NOISE)
        return [GridGaussian(1.0, 1.0, 2.0**-9).release(np.zeros(2, np.int64), noise)[0] for _ in range(count(X))]

    found = grey_box(lambda X, y: uses(X, y, len), *neighbours())
    assert found.fault == "1 of 40 entries of the tape were not asked for"
    found = grey_box(lambda X, y: uses(X, y, lambda X: 80 - len(X)), *neighbours())
    assert found.fault.startswith("entry 40: a use of GridGaussian")
    assert found.fault.endswith("beyond the end of the tape")


def test_a_refusal_that_depends_on_the_table():
    def choosy(X, y):
        if not X[-1, 0] <= np.abs(X[:-1, 0]).max():
            raise ArithmeticError("not solved")
        return 1.0

    table, neighbour = neighbours()
    table[0][-1, 0] = 1.0
    found = grey_box(choosy, table, neighbour)
    assert found.fault == "one table ends with 'ArithmeticError: not solved', its neighbour with 'a result'"
    both = grey_box(choosy, table, table)
    assert (both.fault, both.refusal) == ("", "ArithmeticError: not solved")


def test_noise_past_the_mechanisms_is_noted():
    def careless(X, y):
        return X.sum() + Streams(0).generator(Purpose.NOISE).standard_normal(2)

    found = grey_box(careless, *neighbours())
    assert [draw.method for draw in found.tape.draws] == ["standard_normal"]
    assert not found.holds


def test_choices_labels_and_samples_by_hand():
    """Ratios that are known: a score that moves by 3 of 2, two labels of one."""

    def run(scores, labels):
        noise = Streams().generator(Purpose.NOISE)
        place, _ = ExponentialMechanism(1.0, 2.0).select(np.array(scores), noise)
        answers, _ = RandomizedResponse(1.0).release(np.array(labels), noise)
        return [place, answers]

    found = grey_box(run, ([0, 5, 0], [1.0, -1.0]), ([2, 4, 0], [1.0, 1.0]))
    assert found.replay.distances == [1.5, 1.0]
    assert found.fault == ""
    assert grey_box(run, ([0, 5, 0], [1.0, -1.0]), ([0, 5, 0], [-1.0, 1.0])).largest == 2.0


def test_released_values_are_those_of_the_tape():
    """Honest, without noise, or far from the value; the same in the replay."""
    mechanism = GridGaussian(1.0, 1.0, 2.0**-20)

    def released(factor, value):
        with recording(noise=[factor], seed=1) as tape:
            first, event = mechanism.release(np.full(2000, value), Streams().generator(Purpose.NOISE))
        with replaying(tape) as replay:
            second, _ = mechanism.release(np.full(2000, value + 1), Streams().generator(Purpose.NOISE))
        np.testing.assert_array_equal(first, second)
        assert event == mechanism.event == tape.event
        assert replay.distances == [pytest.approx(math.sqrt(2000) * 2.0**-20)]
        return first

    assert released(0.0, 2**20).std() == 0.0
    assert released(1.0, 2**20).std() == pytest.approx(1.0, rel=0.1)
    assert released(30.0, 2**20).std() == pytest.approx(30.0, rel=0.1)


def test_a_poisson_sample_is_replayed_without_the_absent_row():
    from sottovoce.central.sums import samples

    def run(n):
        return len(samples.poisson_sample(n, 0.3, Streams().generator(Purpose.SAMPLING))) * 0

    found = grey_box(run, (50,), (49,), sampled=(20,), absent=20)
    assert found.fault == ""
    ((sample,),) = [found.tape.entries]
    assert 20 in sample.rows
    with replaying(found.tape, absent=20):
        again = samples.poisson_sample(49, 0.3, Streams().generator(Purpose.SAMPLING))
    rows = sample.rows[sample.rows != 20]
    np.testing.assert_array_equal(again, np.where(rows > 20, rows - 1, rows))
    assert "a sample of 40 rows" in grey_box(lambda n: [run(n), 0][1], (50,), (40,)).fault


def test_one_at_a_time_and_everything_is_put_back():
    before = (GridGaussian.release, ExponentialMechanism.select, RandomizedResponse.release, Streams.generator)
    kernels = (dp_scd_kernels.batch_pass, passes.accelerated_pass)
    with recording():
        with pytest.raises(AuditError, match="another recording or replay is under way"), recording():
            pass
        assert GridGaussian.release is not before[0]
    assert before == (GridGaussian.release, ExponentialMechanism.select, RandomizedResponse.release, Streams.generator)
    assert kernels == (dp_scd_kernels.batch_pass, passes.accelerated_pass)
