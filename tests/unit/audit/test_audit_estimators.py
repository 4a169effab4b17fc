"""The auditor finds violations that are there, finds none where there is none, and says what it could have seen."""

import math
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.stats import binomtest, norm
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import VotingClassifier

from sottovoce.audit import (
    Pair,
    audit_estimator,
    canary_table,
    detectable_epsilon,
    epsilon_lower_bound,
    one_run_lower_bound,
    worst_case_pairs,
)
from sottovoce.audit.threshold import OutputSet
from sottovoce.exceptions import AuditError, DataError, ParameterError
from sottovoce.privacy.accounting import gaussian_epsilon

DELTA = 0.01
PUBLIC = {"data_norm": 2.0, "classes": ["no", "yes"]}


class Sum(ClassifierMixin, BaseEstimator):
    """Releases sum y_i x_i with Laplace noise of scale 2 * data_norm / epsilon times ``factor``; one column."""

    def __init__(self, epsilon=1.0, factor=1.0, noise="laplace", random_state=None):
        self.epsilon = epsilon
        self.factor = factor
        self.noise = noise
        self.random_state = random_state

    def fit(self, X, y):
        rng = np.random.default_rng(self.random_state)
        signs = np.where(y == "yes", 1.0, -1.0)
        scale = 4.0 / self.epsilon * self.factor
        total = signs @ X
        if self.noise == "spread":  # the right place, but a spread that gives the long rows away
            total = rng.laplace(0.0, scale * (1.0 + 5.0 * np.abs(X).sum()), X.shape[1])
        elif self.noise == "frozen":
            total = total + np.random.default_rng(7).laplace(0.0, scale, X.shape[1])
        else:
            total = total + rng.laplace(0.0, scale, X.shape[1])
        self.coef_, self.intercept_ = total[None, :], np.zeros(0)
        return self


def audit(pairs=None, n_runs=1200, **parameters):
    pairs = worst_case_pairs(**PUBLIC)[:4] if pairs is None else pairs
    return audit_estimator(
        Sum(**{"random_state": 0, **parameters}), pairs, epsilon=1.0, delta=0.0, n_runs=n_runs, n_pilot=200
    )


def test_a_sound_mechanism_passes_and_nearly_reaches_its_epsilon():
    report = audit()
    assert not report.violated
    assert 0.6 < report.lower_bound <= 1.0
    assert "not refuted: Sum claims (1, 0)" in report.statement()
    assert report.to_dict()["violated"] is False


def test_too_little_noise_is_found():
    report = audit(factor=0.5)
    assert report.violated
    assert 1.0 < report.lower_bound <= 2.0
    assert report.statement().startswith("VIOLATED: Sum claims (1, 0)-differential privacy; with 99.9 % confidence")


def test_a_violation_in_the_spread_alone_is_found():
    report = audit(noise="spread", factor=0.01)
    assert report.violated
    assert "zero" in report.pair


@pytest.mark.parametrize("seed", [None, 3])
def test_noise_that_never_changes_is_found(seed):
    report = audit(noise="frozen", random_state=seed, pairs=worst_case_pairs(**PUBLIC)[:1], n_runs=200)
    assert report.violated
    assert report.repeats
    assert "the noise is not random" in report.statement()


def test_seeds_of_estimators_within_others_are_changed_in_every_run():
    """A pipeline with a seed within it was told to be violated; its parts do not draw the same, and stay as given."""
    seeds = (5, 5, None)
    parts, drawn = [Sum(random_state=seed) for seed in seeds], []

    def release(model):
        drawn.append(tuple(part.random_state for _, part in model.estimators))
        return model.estimators_[0].coef_.ravel()

    votes = VotingClassifier([("a", parts[0]), ("b", parts[1]), ("c", parts[2])])
    given = {"epsilon": 1.0, "delta": 0.0, "n_runs": 100, "n_pilot": 100, "release": release}
    report = audit_estimator(votes, worst_case_pairs(**PUBLIC)[:1], **given)
    assert not (report.violated or report.repeats)
    assert [part.random_state for part in parts] == list(seeds)
    assert not any(hasattr(part, "coef_") for part in parts)
    for place, seed in enumerate(seeds):
        assert len({run[place] for run in drawn}) == (1 if seed is None else len(drawn))
    assert not any(first == second for first, second, _ in drawn)


def test_an_estimator_of_another_interpreter(tmp_path, monkeypatch):
    (tmp_path / "somebody.py").write_text(
        "import os, numpy as np\n"
        "class Model:\n"
        "    def __init__(self, scale): self.scale = scale\n"
        "    def get_params(self, deep=True): return {'scale': self.scale}\n"
        "    def fit(self, X, y):\n"
        "        print('[[[ it', end='')\n"
        "        if self.scale == np.inf: os.write(1, bytes([255])); os._exit(0)\n"
        "        self.coef_ = np.where(y == 'yes', 1.0, -1.0) @ X + np.random.default_rng().laplace(0, self.scale, 1)\n"
        "        return self\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    pairs = worst_case_pairs(n_features=1, **PUBLIC)[:1]  # its noise is for one column
    options = {"epsilon": 1.0, "delta": 0.0, "n_runs": 600, "n_pilot": 100, "python": sys.executable, "n_jobs": 2}
    assert audit_estimator("somebody.Model", pairs, parameters={"scale": 1.0}, **options).violated
    assert not audit_estimator("somebody.Model", pairs, parameters={"scale": 4.0}, **options).violated
    with pytest.raises(AuditError, match=r"somebody\.Model failed under .*(?s:.*)unexpected keyword argument 'size'"):
        audit_estimator("somebody.Model", pairs, parameters={"size": 4.0}, **options)
    with pytest.raises(AuditError, match=r"somebody\.Model ended under .* without its outputs: it must not end its"):
        audit_estimator("somebody.Model", pairs, parameters={"scale": math.inf}, **options)
    with pytest.raises(AuditError, match="cannot start the interpreter 'no-such-python'"):
        audit_estimator("somebody.Model", pairs, **{**options, "python": "no-such-python"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": -1.0}, "epsilon must be"),
        ({"delta": 1.0}, "delta must be"),
        ({"n_runs": 10}, "n_runs must be a whole number >= 100; got 10"),
        ({"n_pilot": 10}, "n_pilot must be a whole number >= 100; got 10"),
        ({"confidence": 1.0}, "confidence must be"),
        ({"gaussian": 1}, "gaussian must be True or False; got 1"),
        ({"gaussian": True, "delta": 0.0}, "gaussian=True needs delta > 0"),
        ({"pairs": []}, "pairs must hold at least one Pair"),
        ({"estimator": Sum}, "estimator must be an unfitted estimator, a callable that makes one, or a name"),
        ({"parameters": {}}, "parameters, python and n_jobs are for an estimator that is named"),
        ({"estimator": "a.B", "release": np.ravel}, "release is for an estimator of this process"),
    ],
)
def test_bad_arguments_run_nothing(change, message):
    class Untouched(Sum):
        def fit(self, X, y):
            raise AssertionError

    arguments = {"estimator": Untouched(), "pairs": worst_case_pairs(**PUBLIC), "epsilon": 1.0, "delta": 0.01, **change}
    with pytest.raises(ParameterError, match=message):
        audit_estimator(arguments.pop("estimator"), arguments.pop("pairs"), **arguments)


def test_a_failing_estimator_is_named_with_its_error():
    with pytest.raises(AuditError, match=r"failed on the pair 'the label of .*': TypeError: "):
        audit_estimator(Sum(epsilon="one"), worst_case_pairs(**PUBLIC), epsilon=1.0, delta=0.0)


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize("facts", [PUBLIC, {"data_bound": 0.5, "label_bounds": (-3.0, 5.0)}])
def test_pairs_differ_in_one_row_within_the_bounds(adjacency, facts):
    for pair in worst_case_pairs(n_rows=5, n_features=3, adjacency=adjacency, **facts):
        for X, y in ((pair.X, pair.y), (pair.X_neighbour, pair.y_neighbour)):
            assert len(set(y)) == 2
            if "data_norm" in facts:
                assert np.linalg.norm(X, axis=1).max() <= 2.0 * (1 + 1e-12)
            else:
                assert np.abs(X).max() <= 0.5
        assert len(pair.X) - len(pair.X_neighbour) == (adjacency == "add-remove")


def test_bad_pairs():
    X = np.zeros((3, 2))
    with pytest.raises(ParameterError, match="must differ in exactly one row"):
        Pair("same", X, np.zeros(3), X, np.zeros(3), np.ones(2))
    with pytest.raises(ParameterError, match="as many rows"):
        Pair("ragged", X, np.zeros(2), X, np.zeros(3), np.ones(2))
    with pytest.raises(ParameterError, match="exactly one of data_norm and data_bound"):
        worst_case_pairs(classes=[0, 1])
    with pytest.raises(ParameterError, match="exactly one of classes and label_bounds"):
        worst_case_pairs(data_norm=1.0)
    with pytest.raises(ParameterError, match="two classes"):
        worst_case_pairs(data_norm=1.0, classes=[0, 1, 2])


def test_more_runs_see_smaller_violations():
    few, many = (detectable_epsilon(1.0, DELTA, runs) for runs in (300, 3000))
    assert 1.0 < many < few
    assert detectable_epsilon(1.0, DELTA, 300, gaussian=True) < few
    assert math.isinf(detectable_epsilon(20.0, DELTA, 300))


# ----------------------------- one run


def test_the_one_run_bound_is_the_binomial_one():
    """r right guesses of r at epsilon: the bound makes r heads as unlikely as 1 - confidence."""
    bound = one_run_lower_bound(500, 100, 100, delta=0.0, confidence=0.95)
    assert (1.0 / (1.0 + math.exp(-bound))) ** 100 == pytest.approx(0.05)
    assert one_run_lower_bound(500, 100, 60, delta=0.0) < one_run_lower_bound(500, 100, 90, delta=0.0)
    assert one_run_lower_bound(500, 100, 100, delta=1e-4) < one_run_lower_bound(500, 100, 100, delta=1e-6)
    assert one_run_lower_bound(500, 0, 0, delta=0.0) == 0.0


def test_the_part_of_delta_in_the_one_run_bound_is_the_published_one():
    """At the bound, P(B >= v) + 2 m delta max_i P(v - i <= B < v) / i is 1 - confidence, written out."""
    m, guesses, right, delta = 100, 30, 27, 1e-3
    bound = one_run_lower_bound(m, guesses, right, delta=delta, confidence=0.9)
    heads = 1.0 / (1.0 + math.exp(-bound))
    law = [math.comb(guesses, k) * heads**k * (1.0 - heads) ** (guesses - k) for k in range(guesses + 1)]
    slip = max(sum(law[right - i : right]) / i for i in range(1, right + 1))
    assert sum(law[right:]) + 2 * m * delta * slip == pytest.approx(0.1, rel=1e-9)


def test_one_run_refutes_what_is_wrong_and_spares_what_is_right():
    """Randomised response of every coin, as the canaries' coefficients: its epsilon is known."""
    refuted = {0.7: 0, 2.5: 0}
    for true in refuted:
        for seed in range(8):
            run = canary_table(2000, random_state=seed)
            rng = np.random.default_rng(1000 + seed)
            kept = rng.random(2000) < 1.0 / (1.0 + math.exp(-true))
            said = np.where(run.inside == kept, 1.0, -1.0) * run.signs
            bound = run.lower_bound(said + 1e-3 * rng.random(2000), delta=0.0, confidence=0.95)
            assert bound <= true + 0.4
            refuted[true] += bound > 1.0
    assert refuted[0.7] == 0
    assert refuted[2.5] == 8


def test_canary_tables_hold_the_canaries_that_are_in():
    run = canary_table(50, data_norm=2.0, labels=("a", "b"), random_state=0)
    assert run.X.shape == (run.inside.sum(), 50)
    assert np.array_equal(run.X.argmax(axis=1), np.flatnonzero(run.inside))
    assert set(np.linalg.norm(run.X, axis=1)) == {2.0}
    with pytest.raises(DataError, match="one finite number a canary, 50; got 3"):
        run.lower_bound([1, 2, 3], delta=0.0)
    with pytest.raises(ParameterError, match="labels must be two different labels"):
        canary_table(50, labels=(1, 1))
    with pytest.raises(ParameterError, match="right must be a whole number"):
        one_run_lower_bound(10, 5, 6, delta=0.0)


# --- the audit's own bounds -------------------------------------------------------------------------------------------

BOUNDS = [pytest.param(partial(epsilon_lower_bound, gaussian=one), id=f"gaussian={one}") for one in (False, True)]


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize(("mu", "delta"), [(0.5, 0.01), (1.0, 0.05), (2.0, 1e-3)])
def test_below_the_truth_and_near_it(bound, mu, delta):
    truth = gaussian_epsilon(mu, delta)
    found = []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        found.append(bound(rng.normal(mu, 1, 20_000), rng.normal(0, 1, 20_000), delta=delta, confidence=0.999))
    # each exceeds the truth with probability at most 0.001; fifteen of them almost never do, and the seeds are fixed
    assert max(found) <= truth
    assert np.median(found) > 0.5 * truth


@pytest.mark.parametrize("bound", BOUNDS)
def test_both_directions_and_both_sides_are_tried(bound):
    rng = np.random.default_rng(0)
    plus, zero = rng.normal(1.5, 1, 10_000), rng.normal(0, 1, 10_000)
    results = [bound(a, b, delta=0.01) for a, b in ((plus, zero), (zero, plus), (-plus, zero), (zero, -plus))]
    assert min(results) > 0.6 * max(results) > 0.5


@pytest.mark.parametrize("bound", BOUNDS)
def test_nothing_is_found_in_nothing(bound):
    rng = np.random.default_rng(0)
    same = rng.normal(size=(2, 5000))
    assert bound(same[0], same[1], delta=0.0) == 0.0
    assert bound(np.zeros(100), np.zeros(100), delta=0.0) == 0.0


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_release_of_the_truth_is_seen_as_one(bound):
    assert bound(np.ones(10_000), np.zeros(10_000), delta=0.01) > 6


@pytest.mark.parametrize("bound", BOUNDS)
def test_bad_scores(bound):
    good = np.zeros(30)
    with pytest.raises(ParameterError, match="scores must hold at least 20 runs; got 3"):
        bound(np.zeros(3), good, delta=0.1)
    with pytest.raises(ParameterError, match="neighbour_scores holds NaN"):
        bound(good, np.full(30, np.nan), delta=0.1)
    with pytest.raises(ParameterError, match="delta must be"):
        bound(good, good, delta=1.0)
    with pytest.raises(ParameterError, match="confidence must be"):
        bound(good, good, delta=0.1, confidence=1.0)


def test_the_intervals_are_those_of_clopper_and_pearson():
    """Each of the two shares may be wrong with half of what confidence leaves."""
    judged = OutputSet(swapped=False, sign=1.0, threshold=0.5)
    scores, neighbour = np.repeat([1.0, 0.0], [300, 700]), np.repeat([1.0, 0.0], [20, 980])
    exact = {"confidence_level": 0.95, "method": "exact"}
    low, high = binomtest(300, 1000).proportion_ci(**exact).low, binomtest(20, 1000).proportion_ci(**exact).high
    assert judged.epsilon(scores, neighbour, delta=0.01, confidence=0.95) == pytest.approx(np.log((low - 0.01) / high))
    shift = norm.ppf(low) - norm.ppf(high)
    gaussian = replace(judged, gaussian=True).epsilon(scores, neighbour, delta=0.01, confidence=0.95)
    assert gaussian == pytest.approx(gaussian_epsilon(shift, 0.01))
