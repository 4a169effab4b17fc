"""Weights of rows: public ones by class, private ones within a public bound; the same optimum, and nothing gets out."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

import sottovoce as sv
from sottovoce.estimators.persistence import model_from_json, model_to_json, save_model
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.report import verify_receipt
from support.noise import switch_off_gaussians
from support.optimum import estimator, labels, objective, reference, table
from support.pairs import by_pairs
from support.replay import grey_box
from support.solvers import by_name

LOSSES = pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
N = 300
X, SCORE = table(0, N, 8, density=0.5)
RNG = np.random.default_rng(1)
COUNTS = RNG.integers(0, 4, N).astype(np.float64)


def made(loss, **parameters):
    return estimator(loss, **{"epsilon": 1.0, **parameters})


@pytest.mark.parametrize(
    ("loss", "sparse", "epsilon"), by_pairs(["squared", "logistic", "hinge"], [False, True], [1.0, math.inf])
)
def test_weights_of_1_change_nothing(loss, sparse, epsilon):
    rows, y = sp.csr_array(X) if sparse else X, labels(loss, SCORE)
    options = {"calibration_share": 0.0}  # with weights there is neither slope nor shift
    alike = {"epsilon": epsilon, "alpha": 1e-4}
    plain = made(loss, **alike, solver="scd", solver_options=options).fit(rows, y)
    weighted = [
        made(loss, **alike, max_sample_weight=1.0).fit(rows, y, np.ones(N)),
        made(loss, **alike, max_sample_weight=1.0).fit(rows, y),
        made(loss, **alike, max_sample_weight=1.0).fit(rows, y, np.full(N, 7.0)),  # clipped to the bound
    ]
    if loss != "squared":
        weighted.append(made(loss, **alike, class_weight={-1.0: 1, 1.0: 1}).fit(rows, y))
    for model in weighted:
        np.testing.assert_array_equal(model.coef_, plain.coef_)
        np.testing.assert_array_equal(model.intercept_, plain.intercept_)
        assert model.guarantee_.event == plain.guarantee_.event
        assert "largest weight of a row" in model.guarantee_.parameters
    assert "class_weight" not in plain.guarantee_.parameters["arguments"]  # receipts without weights are as they were
    assert "max_sample_weight" not in plain.guarantee_.parameters["arguments"]


@LOSSES
@pytest.mark.parametrize("private", [True, False], ids=["private", "no noise"])
def test_a_whole_weight_is_as_many_rows(loss, private, monkeypatch):
    """The penalty is for the mean over the public number of rows, so alpha changes with it."""
    switch_off_gaussians(monkeypatch)
    y, alpha = labels(loss, SCORE), 2e-2
    budget = {"epsilon": 10.0, "solver_options": {"n_passes": 3000}} if private else {"epsilon": math.inf}
    repeated = np.repeat(np.arange(N), COUNTS.astype(int))
    model = made(loss, alpha=alpha * len(repeated) / N, solver="scd", max_sample_weight=5.0, **budget)
    model.fit(X, y, COUNTS)
    place = X[repeated], y[repeated], alpha
    ours = objective(loss, *place, model.coef_, float(np.ravel(model.intercept_)[0]))
    assert ours <= reference(loss, *place) * (1 + (1e-3 if private else 1e-6))
    plain = made(loss, alpha=alpha, epsilon=math.inf).fit(X, y)  # the weights matter: without them it is not reached
    assert ours < objective(loss, *place, plain.coef_, float(np.ravel(plain.intercept_)[0])) * (1 - 1e-4)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_weights_of_classes_are_weights_of_rows(loss):
    y = labels(loss, SCORE)
    by_class = made(loss, class_weight={-1.0: 0.5, 1.0: 4.0}).fit(X, y)
    by_row = made(loss, max_sample_weight=4.0).fit(X, y, np.where(y > 0, 4.0, 0.5))
    np.testing.assert_array_equal(by_class.coef_, by_row.coef_)
    both = made(loss, class_weight={-1.0: 0.5, 1.0: 4.0}, max_sample_weight=2.0).fit(X, y, np.full(N, 2.0))
    assert both.guarantee_.parameters["largest weight of a row"] == 8.0
    assert both.plan(N, 8).weight_bound == 8.0


def test_several_classes_are_trained_one_vs_rest():
    y = np.array(["a", "b", "c"])[np.argmax(X[:, :3], axis=1)]
    model = sv.DPLogisticRegression(
        epsilon=math.inf, data_norm=1.0, class_weight={"a": 1, "b": 0.0, "c": 2}, max_sample_weight=3.0, random_state=0
    )
    model.fit(X, y, COUNTS)
    assert not (model.predict(X) == "b").any()
    model.set_params(epsilon=1.0, delta=1e-6, classes=["a", "b", "c"]).fit(X, y, COUNTS)
    assert model.guarantee_.parameters["solver"] == "scd"
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(1.0)


def test_weights_beyond_the_bounds_are_clipped():
    y = labels("hinge", SCORE)
    wild = np.where(np.arange(N) % 3 == 0, 1e300, np.where(np.arange(N) % 3 == 1, -5.0, 1e-310))
    tame = np.where(np.arange(N) % 3 == 0, 2.0, 0.0)
    models = [made("hinge", max_sample_weight=2.0).fit(X, y, list(w)) for w in (wild, tame)]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


@pytest.mark.parametrize("bad", [np.nan, np.inf, "heavy"])
def test_weights_that_are_no_numbers_are_refused(bad):
    weights = [1.0] * (N - 1) + [bad]
    with pytest.raises(DataError, match="sample_weight"):
        made("hinge", max_sample_weight=2.0).fit(X, labels("hinge", SCORE), weights)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"class_weight": "balanced"}, "count the rows of each class"),
        ({"class_weight": [1, 2]}, "must be a dict"),
        ({"class_weight": {}}, "must be a dict"),
        ({"class_weight": {-1.0: 1.0}}, "one weight for each class"),
        ({"class_weight": {-1.0: 1.0, 1.0: 1.0, 2.0: 1.0}}, "one weight for each class"),
        ({"class_weight": {-1.0: 1.0, 1.0: -1.0}}, "must be a finite number >= 0"),
        ({"class_weight": {-1.0: 1.0, 1.0: math.nan}}, "must be a finite number >= 0"),
        ({"class_weight": {-1.0: 0.0, 1.0: 0.0}}, "largest weight"),
        ({"max_sample_weight": 0.0}, "max_sample_weight must be"),
        ({"max_sample_weight": math.inf}, "max_sample_weight must be"),
        ({"max_sample_weight": 2.0, "solver_options": {"calibration_share": 0.1}}, "calibration_share"),
        *(
            ({"max_sample_weight": 2.0, "solver": by_name(solver)}, rf"solver='?{solver}.* takes no weights")
            for solver in ("newton", "Minibatch", "multinomial-scd", "sgd", "Sequential", "Primal")
        ),
    ],
)
def test_refused_before_the_data_are_read(given, message):
    for epsilon in (1.0, math.inf):
        model = made("logistic", **{**given, "epsilon": epsilon})
        if epsilon == 1.0 or "solver_options" not in given:
            with pytest.raises(ParameterError, match=message):
                model.plan(N, 8)


def test_sample_weight_needs_a_bound_and_a_row_each():
    y = labels("squared", SCORE)
    with pytest.raises(ParameterError, match="max_sample_weight is missing"):
        made("squared").fit(X, y, COUNTS)
    with pytest.raises(ParameterError, match="shape"):
        made("squared", max_sample_weight=1.0).fit(X, y, np.ones((N, 2)))
    with pytest.raises(ValueError, match="inconsistent numbers"):
        made("squared", max_sample_weight=1.0).fit(X, y, np.ones(N - 1))
    with pytest.raises(ParameterError, match="takes no weights"):
        made("squared", max_sample_weight=1.0, solver="adassp").fit(X, y, COUNTS)


@pytest.mark.parametrize(
    ("classes", "weights"),
    [
        ([0, 1], {0: 1, 1: 3}),
        ([0.0, 1.0], {0: 1, 1: 3}),
        (["0", "1"], {"0": 1, "1": 3}),
        ([False, True], {True: 3, False: 1}),
    ],
    ids=["whole", "doubles", "texts", "booleans"],
)
@pytest.mark.parametrize("stated", [True, False])
@pytest.mark.filterwarnings("ignore:classes were read")
def test_models_and_receipts_keep_them(tmp_path, classes, weights, stated):
    y = np.array(classes)[(SCORE > 0).astype(int)]
    model = sv.DPLogisticRegression(
        epsilon=1.0, delta=1e-6, data_norm=1.0, classes=classes if stated else None, class_weight=weights,
        max_sample_weight=2.0,
    ).fit(X, y, COUNTS)  # fmt: skip
    save_model(model, tmp_path / "model.json")
    found = verify_receipt(tmp_path / "model.json")
    assert found.passed, found.rows()
    assert any("no row has more than the weight 6.0" in line for line in model.guarantee_.assumptions)
    again, _ = model_from_json(model_to_json(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.plan(N, 8).weight_bound == 6.0
    again.fit(X, y, COUNTS)
    edited = (tmp_path / "model.json").read_text().replace("weight 6.0", "weight 2.0")
    (tmp_path / "forged.json").write_text(edited)
    assert not verify_receipt(tmp_path / "forged.json").passed


def test_a_search_takes_weights_of_classes():
    y = labels("logistic", SCORE)
    model = sv.DPLogisticRegression(data_norm=1.0, classes=[-1.0, 1.0], class_weight={-1.0: 1, 1.0: 3})
    search = sv.DPSearchCV(model, {"alpha": [1e-3, 1e-2]}, epsilon=1.0, delta=1e-6, n_iter=2, random_state=0)
    search.fit(X, y)
    assert search.guarantee_.parameters["largest weight of a row"] == 3.0
    assert any("of the best trial: class_weight = " in line for line in search.guarantee_.assumptions)


# --- what one row can do ----------------------------------------------------------------------------------------------


def neighbours(loss, adjacency, seed):
    rng = np.random.default_rng(seed)
    rows, score = table(seed, 60, 9, density=1.0)
    y = labels(loss, score)
    weights = 10.0 ** rng.uniform(-320, 300, 60) * rng.choice([-1.0, 0.0, 1.0, 1.0, 1.0], 60)
    weights[-1] = (1e300, 3.0, 1e-300)[seed % 3]
    if loss != "squared":
        y[-1] = 1.0  # of the heavy class
    if adjacency == "add-remove":
        return (rows, y, weights), (rows[:-1], y[:-1], weights[:-1]), {"absent": 59}
    other = rows.copy(), y.copy(), weights.copy()
    other[0][-1], other[1][-1], other[2][-1] = -rows[-1], (-1.0) ** (seed % 2) * y[-1], 1e300
    return (rows, y, weights), other, {}


def shown(loss, adjacency, **given):
    def run(rows, y, weights):
        model = made(
            loss, adjacency=adjacency, n_public=60, max_sample_weight=3.0, solver="scd", alpha=1e-2,
            solver_options={"n_passes": 6}, **given,
        ).fit(rows, y, weights)  # fmt: skip
        return [model.coef_, model.intercept_, repr(model.guarantee_.parameters), model.guarantee_.event]

    return run


@LOSSES
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_a_row_moves_a_release_by_no_more_than_its_noise_is_made_for(loss, adjacency):
    given = {} if loss == "squared" else {"class_weight": {-1.0: 0.01, 1.0: 100.0}}
    largest = 0.0
    for seed in range(6):
        one, other, facts = neighbours(loss, adjacency, seed)
        found = grey_box(shown(loss, adjacency, **given), one, other, seed=seed, **facts)
        assert (found.fault, found.refusal) == ("", "")
        assert found.largest <= 1.0
        largest = max(largest, found.largest)
    assert largest > 0.5
