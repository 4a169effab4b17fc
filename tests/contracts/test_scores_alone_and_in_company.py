"""The score of a row in an evaluation is the same, bit by bit, alone and at every place of every table.

Otherwise taking one row away moves the last digits of others, and rows at a threshold cross it together: the counts
then move by more than any sensitivity says.
"""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import Binarizer, FunctionTransformer, Normalizer, PolynomialFeatures

import sottovoce as sv
from sottovoce.evaluation.evaluating import evaluation_plan, score_rows
from sottovoce.local import Aggregator, NumericFeature, Protocol, Randomizer
from support.pairs import by_pairs

CLASSES = {2: ["no", "yes"], 3: ["a", "b", "c"], 11: [f"class {k}" for k in range(11)]}
BUDGET = {"epsilon": 30.0, "delta": 1e-4, "random_state": 0}
LABELS = {"label_bounds": (-1.0, 1.0)}
N_TABLES, N_STEERED = 6, 20


def data(d, n_classes, n=200):
    rng = np.random.default_rng(d)
    X = rng.uniform(-1.0, 1.0, (n, d))
    if n_classes is None:
        return X, np.clip(X[:, 0], -1.0, 1.0)
    return X, np.array(CLASSES[n_classes])[np.arange(n) % n_classes]


def single(kind, d, n_classes=2, **given):
    classes = {} if n_classes is None else {"classes": CLASSES[n_classes]}
    return kind(**{**BUDGET, "data_norm": 4.0, **classes, **given}).fit(*data(d, n_classes))


def ball(kind, d, n_classes=2):
    names = {"classes": CLASSES[n_classes]} if n_classes else LABELS
    return kind(**BUDGET, data_bound=1.0, radius=3.0, **names).fit(*data(d, n_classes))


def piped(d, *steps, n_classes=2, frame=False, **given):
    names = {"classes": CLASSES[n_classes]} if n_classes else LABELS
    kind = sv.DPLogisticRegression if n_classes else sv.DPRidge
    named = [(f"step{k}", step) for k, step in enumerate(steps)]
    X, y = data(d, n_classes)
    model = kind(data_norm=4.0, **names, **given)
    return sv.DPPipeline([*named, ("model", model)], **BUDGET).fit(as_frame(X) if frame else X, y)


def plain(d, *steps, frame=False):
    X, y = data(d, 2)
    model = sv.DPLogisticRegression(**BUDGET, data_norm=4.0, classes=CLASSES[2])
    return make_pipeline(*steps, model).fit(as_frame(X) if frame else X, y)


def schema(d, **given):
    return sv.SchemaEncoder({f"x{k}": (-1.0, 1.0) for k in range(d)}, **given)


def searched(d):
    estimator = sv.DPLogisticRegression(data_norm=4.0, classes=CLASSES[2])
    return sv.DPSearchCV(estimator, {"alpha": [1e-2, 1e-3]}, epsilon=30.0, delta=1e-4, random_state=0).fit(*data(d, 2))


def local(d, *, named=False, **given):
    columns = {"features": [NumericFeature(f"x{k}", -1.0, 1.0) for k in range(d)]} if named else {"n_features": d}
    protocol = Protocol(epsilon=8.0, **columns, **(given or {"classes": CLASSES[2]}))
    X, y = data(d, None if given else 2, n=1000)  # of 200 devices, with no seed, one model in fifty is all zeros
    device, reports = Randomizer(protocol), Aggregator(protocol)
    reports.add([device.report(list(x), label) for x, label in zip(X, y.tolist(), strict=True)])
    return reports.fit()


def as_frame(X):
    return pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])


def some_columns():
    return ColumnTransformer([("unit", Normalizer(), [0, 1, 2])], remainder="passthrough")


# what is evaluated, and whether it takes frames alone, or arrays alone
MODELS = {
    **{
        f"logistic, {d} columns": (lambda d=d: single(sv.DPLogisticRegression, d)) for d in (1, 2, 7, 8, 9, 16, 37, 300)
    },
    "logistic, rows shortened": lambda: single(sv.DPLogisticRegression, 16, data_norm="auto"),
    "logistic without an intercept": lambda: single(sv.DPLogisticRegression, 16, fit_intercept=False),
    "logistic, three classes": lambda: single(sv.DPLogisticRegression, 17, 3),
    "logistic, one against the rest": lambda: single(sv.DPLogisticRegression, 9, 11, solver="scd"),
    "logistic, eleven classes as one": lambda: single(sv.DPLogisticRegression, 9, 11),
    "svm": lambda: single(sv.DPLinearSVC, 17),
    "svm, three classes": lambda: single(sv.DPLinearSVC, 6, 3),
    "ridge": lambda: single(sv.DPRidge, 17, None, **LABELS),
    "sparse logistic": lambda: ball(sv.DPSparseLogisticRegression, 17),
    "lasso": lambda: ball(sv.DPLasso, 17, None),
    "search": lambda: searched(9),
    "pipeline of a model alone": lambda: piped(16, fit_intercept=False),
    "pipeline, scaler": lambda: piped(16, sv.DPScaler()),
    "pipeline, scaler, three classes": lambda: piped(17, sv.DPScaler(), n_classes=3),
    "pipeline, scaler, ridge": lambda: piped(17, sv.DPScaler(), n_classes=None),
    "pipeline, unit rows": lambda: piped(16, Normalizer()),
    "pipeline, unit rows by the largest": lambda: piped(16, Normalizer(norm="max")),
    "pipeline, unit rows by sums": lambda: piped(16, Normalizer(norm="l1")),
    "pipeline, squares": lambda: piped(5, PolynomialFeatures(2, include_bias=False), sv.DPScaler()),
    "pipeline, cubes": lambda: piped(5, PolynomialFeatures(3, interaction_only=True), Normalizer()),
    "pipeline, logarithms": lambda: piped(16, FunctionTransformer(np.arcsinh), sv.DPScaler()),
    "pipeline, exponentials": lambda: piped(16, FunctionTransformer(np.expm1), Normalizer()),
    "pipeline, signs": lambda: piped(16, Binarizer(), sv.DPScaler()),
    "pipeline, some columns": lambda: piped(16, some_columns(), sv.DPScaler()),
    "pipeline, some columns, unit rows": lambda: piped(16, some_columns()),
    "pipeline, a union": lambda: piped(16, FeatureUnion([("a", Normalizer()), ("b", Binarizer())])),
    "pipeline, a pipeline": lambda: piped(16, make_pipeline(Normalizer(), PolynomialFeatures(1))),
    "pipeline, schema": lambda: piped(16, schema(16), frame=True),
    "pipeline, sparse schema": lambda: piped(16, schema(16, sparse_output=True), frame=True),
    "scikit-learn's, model alone": lambda: plain(16),
    "scikit-learn's, unit rows": lambda: plain(16, Normalizer()),
    "scikit-learn's, schema": lambda: plain(16, schema(16), frame=True),
    "scikit-learn's, DPPipeline in it": lambda: make_pipeline(Normalizer(), piped(16, sv.DPScaler())),
    "reports": lambda: local(16),
    "reports, named columns": lambda: local(9, named=True),
    "reports, regression": lambda: local(16, task="regression", label_bounds=(-1.0, 1.0)),
}
ARRAYS = {
    "lines": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "single precision": lambda X: np.ascontiguousarray(X, np.float32),
    "single precision, columns": lambda X: np.asfortranarray(X, np.float32),
    "every other line": lambda X: np.repeat(X, 2, axis=0)[::2],
    "every other column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "off by one entry": lambda X: np.concatenate([[0.0], X.ravel()])[1:].reshape(X.shape),
    "sparse": lambda X: sp.csr_array(X),
    "frame": as_frame,
    "frame of columns": lambda X: pd.DataFrame({f"x{k}": X[:, k] for k in range(X.shape[1])}),
}
# no scaler, which centres; and functions that keep zeros
SPARSE = {
    *(name for name in MODELS if not name.startswith("pipeline")),
    *("pipeline of a model alone", "pipeline, unit rows", "pipeline, unit rows by the largest", "pipeline, a union"),
    *("pipeline, unit rows by sums", "pipeline, cubes", "pipeline, some columns, unit rows", "pipeline, a pipeline"),
} - {"scikit-learn's, DPPipeline in it"}


def containers(name):
    if "schema" in name:
        return ("frame", "frame of columns")
    if "reports" in name:
        return tuple(one for one in ARRAYS if one not in ("sparse", "frame", "frame of columns"))
    return tuple(one for one in ARRAYS if one != "sparse" or name in SPARSE)


def scores_of(model, X):
    """Return all that an evaluation keeps of each row."""
    n = X.shape[0]
    classes = getattr(model, "classes_", None)
    plan = evaluation_plan(model, n, epsilon=1.0, label_bounds=None if classes is not None else (-1.0, 1.0))
    labels = np.zeros(n) if classes is None else np.array([classes[0]] * n)
    rows = score_rows(plan, model, X, labels)
    return np.column_stack([rows.scores, *(rows.losses or ())])


def decided(model, X):
    """Return a number that changes its sign where the prediction does."""
    if getattr(model, "classes_", None) is None:
        return np.asarray(model.predict(X))
    found = np.asarray(model.decision_function(X))
    return found if found.ndim == 1 else found[:, 0] - found[:, 1]


def at_the_threshold(model, d, n, frame):
    """Return rows whose score is 0 up to rounding, each found on a line between two rows."""
    rng = np.random.default_rng(1)
    low = rng.uniform(-1.0, 1.0, (n, d))
    high = rng.uniform(-1.0, 1.0, (n, d))
    signs = np.sign(decided(model, as_frame(low) if frame else low))
    shares = np.arange(17)[:, None, None] / 16.0
    for _ in range(16):  # each time to the sixteenth in which the sign changes first
        between = (1.0 - shares) * low + shares * high
        inner = between[1:-1].reshape(-1, d)
        found = np.sign(decided(model, as_frame(inner) if frame else inner)).reshape(15, n)
        first = np.where((found != signs).any(axis=0), np.argmax(found != signs, axis=0), 15)
        low, high = between[first, np.arange(n)], between[first + 1, np.arange(n)]
    return low


def rows_to_score(model, d, frame):
    """Return rows at the threshold, rows whose products cancel, the smallest and the largest numbers, zeros."""
    rng = np.random.default_rng(2)
    steered = at_the_threshold(model, d, N_STEERED, frame)
    if frame:
        return np.vstack([steered, rng.uniform(-1.0, 1.0, (16, d)), np.zeros((1, d))])
    cancelling = rng.uniform(-1.0, 1.0, (16, d)) * 10.0 ** rng.integers(-9, 1, (16, d))
    return np.vstack(
        [steered, cancelling, np.zeros((1, d)), np.full((1, d), 5e-324), rng.uniform(-1, 1, (4, d)) * 1e-310,
         rng.uniform(-1, 1, (4, d)) * 50.0]
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "half"), by_pairs(list(MODELS), [0, 1]))
def test_a_row_scores_the_same_alone_and_at_every_place(name, half):
    """Some forty rows of each model in half of ten containers: all together, and in six tables of 2 to 70 rows.

    Every third row is alone in the first container, and every ninth in the others.
    """
    model = getattr(made := MODELS[name](), "best_estimator_", made)
    d = model.protocol.n_features if "reports" in name else 16 if "scikit" in name else model.n_features_in_
    frame = "schema" in name
    rows = rows_to_score(model, d, frame)
    rng = np.random.default_rng(3)
    for place, kind in enumerate(containers(name)[half::2]):
        made = ARRAYS[kind]
        together = scores_of(model, made(rows))
        assert len(np.unique(together[:, 0])) > 1 or together.shape[1] > 1 or d == 1
        some = slice(place, None, 9 if place else 3)
        alone = np.vstack([scores_of(model, made(row[None, :])) for row in rows[some]])
        np.testing.assert_array_equal(together[some], alone, f"{kind}: alone")
        for size in (2, 3, 5, 8, *rng.integers(6, 70, N_TABLES - 4)):
            places = rng.integers(0, len(rows), size)
            found = scores_of(model, made(rows[places]))
            np.testing.assert_array_equal(found, together[places], f"{kind}: {size} rows")
        same = np.tile(rows[:1], (64, 1))  # where places alone differ
        assert len(np.unique(scores_of(model, made(same)), axis=0)) == 1, kind
