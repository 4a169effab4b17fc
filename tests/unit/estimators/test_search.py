"""DPSearchCV: parameters are checked before noise, one receipt, and nothing tells how many trials there were."""

import logging
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import sottovoce as sv
from sottovoce import randomness
from sottovoce.estimators import _callers
from sottovoce.estimators.search_plan import row_losses, score_mechanism
from sottovoce.exceptions import AccountingError, DataError, ParameterError
from sottovoce.privacy.events import GaussianEvent, RepeatAndSelectEvent
from sottovoce.privacy.trials import TrialCount
from support.replay import recording
from support.solvers import by_name

rng = np.random.default_rng(0)
X = rng.uniform(-1.0, 1.0, (200, 3))
Y = np.where(X[:, 0] > 0, "yes", "no")


def logistic(**changed):
    return sv.DPLogisticRegression(**{"data_norm": 2.0, "classes": ["no", "yes"], **changed})


def search(estimator=None, space=None, **changed):
    settings = {"epsilon": 1.0, "delta": 1e-5, "n_iter": 3, "random_state": 0, **changed}
    return sv.DPSearchCV(estimator or logistic(), space or {"alpha": [1e-4, 1e-2]}, **settings)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (search(epsilon=None), "epsilon is missing"),
        (search(epsilon=float("inf")), "epsilon must be a finite number"),
        (search(delta=0.0), "delta must be"),
        (search(n_iter=0.5), "n_iter must be a finite number >= 1"),
        (search(validation_size=1.0), "validation_size must be"),
        (search(logistic(epsilon=1.0)), "epsilon of the estimator must be None"),
        (search(logistic(delta=1e-5)), "delta of the estimator must be None"),
        (search(logistic(random_state=1)), "random_state of the estimator must be None"),
        (search(logistic(adjacency="add-remove")), "n_public is missing"),
        (search(space={"epsilon": [1.0]}), "param_distributions must be one of 'alpha'.* got 'epsilon'"),
        (search(space={"classes": [["a", "b"]]}), "param_distributions must be one of"),
        (search(space={"alpha": []}), "param_distributions\\['alpha'\\] must be a list, not empty"),
        (search(space={"alpha": [1e-4, -1.0]}), "a trial with {'alpha': -1.0} cannot run: alpha must be"),
    ],
)
def test_parameters_are_checked_before_the_data_and_before_noise(made, message, noise_is_forbidden):
    with pytest.raises(ParameterError, match=message):
        made.fit("not a table", None)


@pytest.mark.parametrize(
    ("solver", "message"),
    [("Minibatch", "its trials are not Gaussian"), ("Published", "its trials cost more")],
)
def test_solvers_without_a_proof_are_refused(solver, message, noise_is_forbidden):
    with pytest.raises(ParameterError, match=rf"solver={solver}\(.*\) cannot be searched: {message}"):
        search(space={"solver": [by_name(solver, {"batch_size": 10})]}).fit(X, Y)


@pytest.mark.parametrize("row", range(0, 200, 40))
def test_bad_rows_are_found_before_noise_wherever_they_fall(row, noise_is_forbidden):
    bad, labels = X.copy(), Y.astype("U5")
    bad[row, 1], labels[row] = np.nan, "maybe"
    with pytest.raises(DataError, match=f"NaN: row {row}, column 1"):
        search().fit(bad, Y)
    with pytest.raises(DataError, match="'maybe'"):
        search().fit(X, labels)


def test_one_receipt_for_the_whole_search():
    model = search(n_iter=5).fit(X, Y)
    plan = sv.plan(model, 200, 3)
    assert model.guarantee_ is model.best_estimator_.guarantee_
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (1.0, 1e-5)
    assert model.guarantee_.event == plan.event == RepeatAndSelectEvent(GaussianEvent(plan.noise_multiplier), 5.0)
    assert 0.999 < model.guarantee_.epsilon_at(1e-5) <= 1.0
    assert sv.Guarantee.from_json(model.guarantee_.to_json()).event == plan.event
    assert model.best_params_["alpha"] == model.best_estimator_.alpha
    assert model.best_estimator_.epsilon == plan.trial_epsilon < 0.8
    assert model.best_estimator_.random_state is None
    assert np.array_equal(model.predict(X), model.best_estimator_.predict(X))
    assert "event" in plan.summary()
    assert "A search would be" in plan._repr_html_()


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.01, 0.3), (100.0, 1e-9)])
def test_a_trial_gets_what_the_plan_allows_and_not_more(epsilon, delta):
    model = search(epsilon=epsilon, delta=delta, n_iter=10)
    plan = sv.plan(model, 2, 5)  # so few rows that no delta here is too large
    trial = logistic(epsilon=plan.trial_epsilon, delta=plan.trial_delta).plan(2, 5)
    assert plan.keeps_budget(trial.event)
    assert trial.split.whole == pytest.approx(plan.mu, rel=1e-9)


def test_nothing_tells_the_number_of_trials(monkeypatch, capfd, caplog):
    caplog.set_level(logging.DEBUG)
    seen = []
    for count in (1, 7):
        monkeypatch.setattr(TrialCount, "draw", lambda self, chance, count=count: count)
        randomness._SEEDS_OF_NOISE.clear()  # the second search has the seed and the table of the first
        _callers.forget()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = search(space={"alpha": [1e-3]}, delta=2.0 / len(Y)).fit(X.copy(), Y)  # of which trials warn
        content = model.guarantee_.to_dict()
        del content["model"], content["checksum"]  # the model is released anyway
        noisy = [name for name in content["parameters"] if "noisy" in name or name in ("passes",) or "pass" in name]
        content["parameters"] = {key: value for key, value in content["parameters"].items() if key not in noisy}
        seen.append((sorted(vars(model)), sorted(vars(model.best_estimator_)), content, len(caught)))
    assert seen[0] == seen[1]
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


def test_the_best_noisy_score_wins_on_rows_that_coins_hold_out(monkeypatch):
    monkeypatch.setattr(TrialCount, "draw", lambda self, chance: 6)
    plan, held_out = sv.plan(search(), 200, 3), set()
    mechanism = score_mechanism(plan.adjacency, plan.noise_multiplier)
    for seed in range(4):
        with recording(seed=seed, noise=(1.0,)) as tape:
            found = search().fit(X, Y).best_score_
        released = [float(one.released[0]) for one in tape.releases if one.mechanism == mechanism]
        assert len(released) == 6
        rows = max(released) * 0.5 / (found - 0.5)
        assert rows == pytest.approx(round(rows))
        held_out.add(round(rows))
    assert all(15 < rows < 70 for rows in held_out)
    assert len(held_out) > 1  # a public rule would hold out as many each time, and others where one row is gone


def test_a_trial_that_overspends_ends_the_search(monkeypatch):
    model, fit = search(), sv.DPLogisticRegression.fit

    def overspend(self, X, y):
        self.set_params(epsilon=2 * self.epsilon)
        return fit(self, X, y)

    monkeypatch.setattr(sv.DPLogisticRegression, "fit", overspend)
    with pytest.raises(AccountingError, match=r"a trial cost more than the mu=.*nothing was released"):
        model.fit(X, Y)
    assert not hasattr(model, "best_estimator_")


def test_rows_are_scored_apart_from_each_other_and_within_bounds():
    y, budget = (Y == "yes").astype(float), {"epsilon": 1.0, "delta": 1e-5, "random_state": 0}
    ridge = sv.DPRidge(data_norm=2.0, label_bounds=(0, 1), **budget)
    wild, places = np.vstack([X, [[1e308, -1e308, 1e308], [0.0, 0.0, 0.0]]]), np.append(y, [0.0, 1.0])
    for model, bound in ((logistic(**budget).fit(X, Y), 1.0), (ridge.fit(X, y), 0.25)):
        losses = row_losses(bound, model, wild, places)
        assert losses.min() >= 0.0
        assert losses.max() <= bound
        alone = [row_losses(bound, model, wild[[i]], places[[i]])[0] for i in range(len(wild))]
        assert np.array_equal(losses, alone)


def test_regression_and_clone():
    y = np.clip(X[:, 0], -1, 1)
    model = search(sv.DPRidge(data_norm=2.0, label_bounds=(-1, 1)), {"alpha": [1e-3]}, epsilon=50.0)
    model = clone(model).fit(X, y)
    assert model.score(X, y) > 0.5
    assert model.score(X, y, sample_weight=np.arange(len(y)) == 0) in (0.0, 1.0)
    assert -1.0 <= model.best_score_ <= 0.2
    assert not hasattr(model, "predict_proba")


@pytest.mark.parametrize("scaler", [sv.DPScaler(), sv.DPScaler(epsilon=0.2, delta=1e-6)])
def test_a_search_and_a_scaler_are_two_budgets_and_errors_say_how(scaler):
    both = r"make_pipeline\(DPScaler\(epsilon=\.\.\., delta=\.\.\.\), DPSearchCV\(\.\.\.\)\)"
    inside = sv.DPPipeline([("scale", sv.DPScaler()), ("model", logistic())])
    with pytest.raises(ParameterError, match=f"estimator must be one of sottovoce's models; got DPPipeline.*{both}"):
        search(inside).fit(X, Y)
    with pytest.raises(ParameterError, match=f"must be one of sottovoce's models; got DPSearchCV.*{both}"):
        sv.DPPipeline([("scale", scaler), ("model", search())], epsilon=1.0, delta=1e-5).fit(X, Y)
    fitted = make_pipeline(sv.DPScaler(epsilon=0.2, delta=1e-6), search()).fit(X, Y)
    assert "epsilon=0.2, delta=1e-06, which add up with this one" in str(fitted[-1].guarantee_.not_covered)


def test_auto_means_the_solver_that_can_be_searched():
    """The hinge's own "auto" would take Newton steps on its smoothed form."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    y = np.sign(X[:, 0])
    svc = sv.DPLinearSVC(data_norm=4.0, classes=[-1, 1])
    assert sv.plan(clone(svc).set_params(epsilon=1.0, delta=1e-5), 300, 3).solver == "newton"
    search = sv.DPSearchCV(svc, {"alpha": [1e-4, 1e-3]}, epsilon=1.0, delta=1e-5, random_state=0).fit(X, y)
    assert search.best_estimator_.solver == "scd"
