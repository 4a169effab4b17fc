"""The door of central fits: each use of a mechanism is counted, a run is what its receipt says, and peeking is refused.

The laws hold for every solver and estimator of the grey-box tests; what breaks one on purpose is shown to be seen.
"""

import math
import re
import warnings
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2

import sottovoce as sv
from sottovoce.central import split
from sottovoce.central.core import Driven, Keep, Release, Steps, Tell, Unprotected, drive, replay
from sottovoce.central.data.lengths import CountWithin, Shorten, make_rows
from sottovoce.central.parallel import Team
from sottovoce.central.sums.histograms import LargestLength
from sottovoce.central.sums.whole_gram import Gram
from sottovoce.estimators.base import _planned
from sottovoce.exceptions import AccountingError, ParameterError, SottovoceWarning
from sottovoce.privacy.accounting import accountant_for, flatten
from sottovoce.privacy.events import PoissonSampledEvent, RepeatedEvent
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.randomness import Streams
from support.grey_box import CASES, Case, pair_of
from support.many_parts import begun
from support.pairs import by_pairs
from support.replay import Tape, recording

DELTA, P_VALUE = 1e-6, 1e-9
NAMED = {case.name: case for case in CASES}
# sampled steps are calibrated here, not judged: tests/contracts/test_accountants.py
pytestmark = pytest.mark.usefixtures("coarse_losses")


def drawn(case: Case, adjacency: str, seed: int, **public):
    """Return a model with public numbers, and a table that is as awkward as can be."""
    rng = np.random.default_rng([CASES.index(case), case.adjacencies.index(adjacency), seed])
    table, *_ = pair_of(case, adjacency, rng)
    return case.kind(**case.public(rng, adjacency=adjacency, n_public=len(table[1]), **public)), table


def recorded(case: Case, adjacency: str, seed: int = 0):
    """Return a fit with honest noise, its plan, and the tape of it."""
    model, table = drawn(case, adjacency, seed)
    with warnings.catch_warnings(), recording(noise=[1.0], seed=seed) as tape:
        warnings.simplefilter("ignore", SottovoceWarning)
        model.fit(*table)
    return model, model.plan(*table[0].shape), tape


def check_uses(model, plan, tape: Tape) -> None:
    """Check that what was used is what was counted, and no more."""
    counted = Counter()
    n_batches = math.ceil(plan.n_samples / plan.size) if hasattr(plan, "batch_mechanism") else 1  # they share no row
    for event, n in flatten(model.guarantee_.event).items():
        whole = isinstance(event, PoissonSampledEvent) and event.sampling_rate == 1.0  # a sample of all is none
        counted[event.event if whole else event] += n * n_batches
    assert Counter(flatten(tape.event)) == counted
    assert not tape.draws  # nothing drew past a mechanism


def p_value_of_noise(tape: Tape) -> float:
    """Return how likely noise of the declared size is to be so small or large as that on a tape."""
    square = size = 0.0
    for one in tape.releases:
        if isinstance(one.mechanism, GridGaussian):
            noise = np.asarray(one.released) - one.exact * one.mechanism.tick
            declared = one.mechanism.event.noise_multiplier * one.mechanism.l2_sensitivity
            square, size = square + float(np.sum((noise / declared) ** 2)), size + noise.size
    return 1.0 if not size else 2.0 * min(chi2.cdf(square, size), chi2.sf(square, size))


@pytest.mark.parametrize(
    ("case", "adjacency"),
    [pytest.param(case, one, id=f"{case.name}, {one}") for case in CASES for one in case.adjacencies],
)
def test_what_is_counted_is_what_was_used_and_what_the_receipt_says(case, adjacency):
    _planned.cache_clear()
    model, plan, tape = recorded(case, adjacency)
    receipt = model.guarantee_
    check_uses(model, plan, tape)
    # on a plan that a fit has used, with the same noise, another is the same: a receipt names the digest of the model
    assert recorded(case, adjacency)[0].guarantee_.to_json() == receipt.to_json()
    assert p_value_of_noise(tape) > P_VALUE
    again = replay(plan.asks, receipt.parameters)
    assert again.event == receipt.event
    assert tuple(again.words) == receipt.releases
    assert all(receipt.parameters[name] == value for name, value in again.kept.items())
    for name, values in ((name, value) for name, value in again.kept.items() if isinstance(value, list)):
        for forged in (values + values[-1:], values[:-1]):
            with pytest.raises(ParameterError, match="one for each model"):
                replay(plan.asks, {**receipt.parameters, name: forged})
    cost, planned = (accountant_for(event).epsilon(event, DELTA) for event in (receipt.event, plan.event))
    assert cost <= planned * (1.0 + 1e-9)
    assert case.is_sampled or receipt.epsilon_at(DELTA) == pytest.approx(cost, rel=1e-9)  # composed anew, for seconds
    assert receipt.proof == plan.proof
    if not case.name.startswith("Published"):  # which costs more than it claims, and says so
        assert receipt.epsilon == model.epsilon
        assert 0.995 * model.epsilon < planned <= model.epsilon * (1.0 + 1e-9)  # and nothing is left


@pytest.mark.parametrize(("name", "epsilon"), by_pairs(
    [case.name for case in CASES if not (case.is_sampled or case.name.startswith("Published"))], [1e-6, 100.0]
))  # fmt: skip
def test_tiny_and_huge_budgets_train(name, epsilon):
    model, table = drawn(NAMED[name], "zero-out", 0, epsilon=epsilon)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SottovoceWarning)
        model.fit(*table)
    assert np.isfinite(model.coef_).all()
    assert model.guarantee_.epsilon_at(DELTA) <= epsilon * (1.0 + 1e-9)


# --- and it can fail --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["scd, logistic", "refinement", "newton, logistic", "Frank-Wolfe, LASSO"])
def test_a_release_without_an_event(name, monkeypatch):
    honest, case = Driven.released, NAMED[name]
    last = recorded(case, case.adjacencies[0])[2].releases[-1].mechanism.event
    monkeypatch.setattr(Driven, "released", lambda self, one: None if one.event == last else honest(self, one))
    with pytest.raises(AssertionError):
        check_uses(*recorded(case, case.adjacencies[0]))


@pytest.mark.parametrize(
    "name",
    ["scd, logistic", "multinomial-scd", "multinomial-scd with steps", "adassp", "Primal, ridge", "gd", "momentum",
     "momentum, ridge", "one-step"],
)  # fmt: skip
def test_noise_of_another_size(name, monkeypatch):
    std, case = GridGaussian.noise_std.fget, NAMED[name]
    # a table of many columns, so that much is released
    wide = max(range(20), key=lambda seed: drawn(case, "zero-out", seed)[1][0].shape[1])
    assert p_value_of_noise(recorded(case, "zero-out", wide)[2]) > P_VALUE
    for factor in (0.7, 1.3):
        monkeypatch.setattr(GridGaussian, "noise_std", property(lambda self, factor=factor: factor * std(self)))
        assert p_value_of_noise(recorded(case, "zero-out", wide)[2]) < P_VALUE


# --- peeking and forgetting -------------------------------------------------------------------------------------------

NOISY = Release("", CountWithin(0.5), GridGaussian(1.0, 3.0, 2.0**-9))
ROWS = make_rows(np.eye(40, 3), data_norm=1.0, constant=0.0, names=None, team=Team(1, None))


@pytest.mark.parametrize("step", [CountWithin(0.5), Gram(), LargestLength(), None, 3.0, NOISY.mechanism, NOISY.ask.on])
def test_what_is_no_step_is_refused_by_its_name(step, monkeypatch):
    holder, asked = begun(ROWS, np.ones(40)), []
    monkeypatch.setattr(holder, "ask", asked.append)

    def asks():
        yield Shorten(1.0)
        asked.append((yield step))

    for run in (replay, lambda asks: drive(asks, holder, Streams(0))):
        with pytest.raises(TypeError, match=re.escape(f"got {step!r}. An answer leaves the rows in a Release.")):
            run(asks)
    assert asked == [Shorten(1.0)]  # before it is done


@pytest.mark.parametrize("step", [Shorten(1.0), Tell("size", 3.0)])
def test_a_change_tells_nothing_and_neither_does_what_is_told(step, monkeypatch):
    """Not even what was answered before."""

    def asks():
        yield NOISY
        return (yield step)

    monkeypatch.setattr(Shorten, "merged", lambda self, answers: 40)
    assert drive(asks, begun(ROWS, np.ones(40)), Streams(0)).result is replay(asks).result is None


SHAPES = {
    "number of steps": lambda x: [NOISY] * int(abs(x)),
    "no step at all": lambda x: [NOISY] if x > 1.0 else [],
    "noise multiplier": lambda x: [NOISY._replace(mechanism=GridGaussian(1.0, 1.0 + abs(x), 2.0**-9))],
    "noise of some steps": lambda x: [NOISY._replace(mechanism=GridGaussian(1.0, 2.0 + (x > 1.0), 2.0**-9))] * 3,
    "no noise": lambda x: [NOISY._replace(mechanism=Unprotected() if x > 1.0 else NOISY.mechanism)],
    "number of steps alike": lambda x: [Steps(range(3 + int(abs(x))), lambda number: (one for one in [NOISY]))],
    "what is told": lambda x: [Tell("size", x)],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_size_that_was_not_kept_is_noticed_at_the_end(shape):
    def asks(keeps):
        (noisy,) = yield NOISY
        size = float(noisy)
        if keeps:
            size = yield Keep("counted", size, lambda name, value: value, 2.0)
        for step in SHAPES[shape](size):
            _ = yield step

    run = drive(lambda: asks(True), begun(ROWS, np.ones(40)), Streams(0))
    assert replay(lambda: asks(True), run.kept).counts == run.counts and run.kept["counted"] > 1.0
    with pytest.raises(AccountingError, match="did not keep what its releases follow from"):
        drive(lambda: asks(False), begun(ROWS, np.ones(40)), Streams(0))


def test_each_thing_is_said_once_and_what_is_released_once_is_no_repetition():
    def asks(n):
        for _ in range(n):
            yield NOISY._replace(words=("a count", ""))
            yield NOISY._replace(words=("a count", "a length"))

    def ran(asks):
        return drive(asks, begun(ROWS, np.ones(40)), Streams(0))

    assert ran(lambda: asks(3)).words == replay(lambda: asks(3)).words == ["a count", "a length"]
    assert ran(lambda: (one for one in [NOISY])).event == NOISY.event
    assert ran(lambda: asks(3)).event == RepeatedEvent(NOISY.event, 6)


def test_what_is_kept_for_each_model_is_as_many_values_as_models():
    def asks():
        for place in range(3):
            (noisy,) = yield NOISY
            yield Keep("size", float(noisy), lambda name, value: value, 2.0, place)

    run = drive(asks, begun(ROWS, np.ones(40)), Streams(0))
    assert len(set(run.kept["size"])) == 3
    assert replay(asks, run.kept).kept == run.kept
    for forged, words in ((run.kept["size"] + [1.0], "size must have 3 values, one for each model"),
                          (run.kept["size"][:2], "there must be a list of size"), (1.0, "there must be a list of size"),
                          (None, "there must be a list of size")):  # fmt: skip
        with pytest.raises(ParameterError, match=words):
            replay(asks, {"size": forged})


@pytest.mark.parametrize("n", [0, 1, 2, 7])
@pytest.mark.parametrize("odd", range(7))
@pytest.mark.parametrize("said", ["", "what most release", "what one does not release"])
def test_steps_that_are_not_alike_are_noticed_at_the_end(n, odd, said):
    twice = "not" not in said

    def step(number):
        for _ in range(1 + (twice and number == odd)):
            yield NOISY

    def asks():
        events = [NOISY.event if twice or number != odd else RepeatedEvent(NOISY.event, 3) for number in range(n)]
        yield Steps(range(n), step, events if said else None)

    if odd < n > 1 and not (said and odd == 0):  # the first is taken, whatever was said of it
        with pytest.raises(AccountingError, match="The result must not be used"):
            drive(asks, begun(ROWS, np.ones(40)), Streams(0))
    else:
        counts = drive(asks, begun(ROWS, np.ones(40)), Streams(0)).counts
        assert counts == replay(asks).counts and counts.total() == n + (twice and odd < n)


def forgetful(asked):
    """A generator that goes on as another one, and keeps nothing."""
    answer = None
    while True:
        try:
            step = asked.send(answer)
        except StopIteration as end:
            return end.value
        kept = isinstance(step, Keep)
        answer = step.check(step.name, step.value() if callable(step.value) else step.value) if kept else (yield step)


@pytest.mark.parametrize(("solver", "options"), [("scd", {}), ("multinomial-scd", {"steps": False})])
def test_a_solver_must_keep_what_its_number_of_passes_follows_from(solver, options, monkeypatch):
    X, y = np.tile([1.0, 0.0, 0.0], (600, 1)), np.arange(600) % 3
    given = {"epsilon": 1.0, "delta": DELTA, "data_norm": 1.0, "random_state": 0}
    model = sv.DPLogisticRegression(classes=[0, 1, 2], solver=solver, solver_options=options, **given).fit(X, y)
    honest = split.largest_eigenvalue
    monkeypatch.setattr(split, "largest_eigenvalue", lambda *given, **more: forgetful(honest(*given, **more)))
    with pytest.raises(AccountingError, match="The result must not be used"):
        model.fit(X, y)
