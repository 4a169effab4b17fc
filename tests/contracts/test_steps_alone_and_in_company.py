"""What a step of a pipeline makes of a row, and in what it puts it, is the same whatever the other rows are.

A step that may stand in a `DPPipeline` is fitted and applied as there: on a table, on the same with one entry changed,
with rows added and taken away.
"""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import Binarizer, FunctionTransformer, Normalizer, OneHotEncoder, PolynomialFeatures

import sottovoce as sv
from sottovoce.exceptions import ParameterError, PrivacyWarning
from support.pairs import by_pairs

D = 6
CLASSES = {"classes": [0, 1]}
SCHEMA = {f"x{k}": (-1.0, 1.0) for k in range(D)}


def hashed(X):
    return sp.csr_array((X if sp.issparse(X) else np.asarray(X)) > 0.0).astype(float)


def columns(*steps, **given):
    given = {"sparse_threshold": 0.3, "remainder": "passthrough"} | given
    return ColumnTransformer([(f"part{k}", step, [k, k + 1]) for k, step in enumerate(steps)], **given)


def some_sparse():
    return FunctionTransformer(hashed, accept_sparse=True)


STEPS = {
    "unit rows": Normalizer,
    "unit rows, sums": lambda: Normalizer(norm="l1"),
    "signs": Binarizer,
    "squares": lambda: PolynomialFeatures(2),
    "cubes": lambda: PolynomialFeatures(3, interaction_only=True, include_bias=False),
    "function": lambda: FunctionTransformer(np.arcsinh, accept_sparse=True),
    "function with a wrong inverse": lambda: FunctionTransformer(np.abs, np.abs, accept_sparse=True),
    "sparse function": some_sparse,
    "chi squares": lambda: make_pipeline(FunctionTransformer(np.abs, accept_sparse=True), AdditiveChi2Sampler()),
    "columns": lambda: columns(Normalizer(), Binarizer()),
    "columns, some sparse": lambda: columns(some_sparse(), Normalizer()),
    "columns, all sparse": lambda: columns(some_sparse(), some_sparse(), remainder="drop"),
    "columns, sparse wherever possible": lambda: columns(some_sparse(), sparse_threshold=1.0),
    "columns in columns": lambda: columns(columns(some_sparse(), remainder="drop"), Normalizer()),
    "columns in a union": lambda: FeatureUnion([("one", columns(some_sparse())), ("two", Normalizer())]),
    "columns in a pipeline": lambda: make_pipeline(columns(some_sparse(), Binarizer()), Normalizer()),
    "remainder of sparse columns": lambda: columns(Normalizer(), remainder=some_sparse()),
    "union": lambda: FeatureUnion([("one", Normalizer()), ("two", some_sparse())]),
    "schema": lambda: sv.SchemaEncoder(SCHEMA),
    "sparse schema": lambda: sv.SchemaEncoder(SCHEMA, sparse_output=True),
}


CONTAINERS = ("lines", "columns", "sparse", "frame")
FILLED = (0.0, 0.3, 0.9, 1.0)  # a table can become dense by one entry
NAMED = [name for name in STEPS if "schema" in name]  # a schema reads named columns
CASES = by_pairs([name for name in STEPS if name not in NAMED], CONTAINERS, FILLED) + by_pairs(NAMED, ["frame"], FILLED)


class HandedError(Exception):
    """The table that the model is trained on."""


def hand(self, X, y, **rows):
    raise HandedError(X)


def made_of(step, X, monkeypatch):
    """Return what the model of a pipeline is trained on."""
    model = sv.DPLogisticRegression(data_norm=4.0, **CLASSES)
    monkeypatch.setattr(sv.DPLogisticRegression, "fit", hand)
    with pytest.raises(HandedError) as caught:
        sv.DPPipeline([("step", step), ("model", model)], epsilon=1.0, delta=1e-6).fit(X, np.arange(X.shape[0]) % 2)
    return caught.value.args[0]


def dense(X):
    return np.ascontiguousarray(X.toarray() if sp.issparse(X) else np.asarray(X))


def tables(filled):
    """Return a table, and those that differ in one row or in some rows, each with the places of rows that both have."""
    rng = np.random.default_rng(round(10 * filled))
    base = np.where(rng.random((10, D)) < filled, rng.uniform(0.1, 1.0, (10, D)), 0.0)
    others, kept = [], np.delete(np.arange(10), 3)
    for value in (0.0, 5e-324, 0.7):
        changed = base.copy()
        changed[3, rng.integers(D)] = value
        others.append((changed, kept))
    changed = base.copy()
    changed[3] = 0.0 if filled > 0.5 else 1.0
    others.append((changed, kept))
    for more in (np.zeros((4, D)), np.ones((4, D)), rng.uniform(-1.0, 1.0, (40, D))):
        others.append((np.vstack([base, more]), np.arange(10)))
    return base, others


@pytest.mark.filterwarnings("error")
@pytest.mark.filterwarnings("ignore:this table was fitted privately before")
@pytest.mark.parametrize(("name", "container", "filled"), CASES)
def test_what_becomes_of_a_row_does_not_depend_on_others(name, container, filled, monkeypatch):
    """Rows that both tables of a pair have stay the same, and so does the container."""
    made = {
        "lines": np.ascontiguousarray, "columns": np.asfortranarray, "sparse": sp.csr_array,
        "frame": lambda X: pd.DataFrame(X, columns=list(SCHEMA)),
    }[container]  # fmt: skip
    base, others = tables(filled)
    one = made_of(STEPS[name](), made(base), monkeypatch)
    for table, both in others:
        other = made_of(STEPS[name](), made(table), monkeypatch)
        assert type(one) is type(other)
        rows = [dense(X)[both] for X in (one, other)]
        assert rows[0].dtype == rows[1].dtype
        assert rows[0].tobytes() == rows[1].tobytes()


class Centred(Normalizer):
    """Learns means, and says that it needs no fit."""

    def fit(self, X, y=None):
        self.means = np.asarray(X).mean(axis=0)
        return super().fit(X)

    def transform(self, X, copy=None):
        return super().transform(X - self.means)


class Shifted(FunctionTransformer):
    """The same by an attribute with another name."""

    def fit(self, X, y=None):
        self.means_ = np.asarray(X).mean(axis=0)
        return super().fit(X)


class Own(TransformerMixin, BaseEstimator):
    """A class of somebody's own that says that it needs no fit."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


class Chosen(ColumnTransformer):
    pass


class Joined(FeatureUnion):
    pass


class LooseSchema(sv.SchemaEncoder):
    pass


MAY_LEARN = [
    Centred(), Shifted(), Own(), LooseSchema(SCHEMA), FrozenEstimator(Centred()),
    Chosen([("one", Normalizer(), [0])]), Joined([("one", Normalizer())]),
    ColumnTransformer([("one", Normalizer(), make_column_selector(dtype_include=np.float64))]),
    ColumnTransformer([("one", Normalizer(), lambda X: [int(np.argmax(np.asarray(X)[0]))])]),
    columns(Centred()), FeatureUnion([("one", Own())]), make_pipeline(Shifted()), columns(OneHotEncoder()),
]  # fmt: skip


@pytest.mark.parametrize("step", MAY_LEARN, ids=lambda step: type(step).__name__)
def test_a_class_that_may_learn_is_refused_and_named(step, noise_is_forbidden):
    X = np.random.default_rng(0).uniform(-1, 1, (40, D))
    model = sv.DPLogisticRegression(data_norm=4.0, **CLASSES)
    with pytest.raises(
        ParameterError, match=r"the step 'step' .* learns from the data without noise, or is of a class"
    ):
        sv.DPPipeline([("step", step), ("model", model)], epsilon=1.0, delta=1e-6).fit(X, np.arange(40) % 2)


@pytest.mark.parametrize("step", [Centred(), Shifted(), columns(Centred()), make_pipeline(Centred())],
                         ids=lambda step: type(step).__name__)  # fmt: skip
def test_a_class_that_may_learn_is_named_by_the_receipt_of_a_plain_pipeline(step):
    X = np.random.default_rng(0).uniform(-1, 1, (40, D))
    private = sv.DPLogisticRegression(epsilon=1.0, delta=1e-6, data_norm=4.0, **CLASSES)
    with pytest.warns(PrivacyWarning, match="learned from the data before this private model"):
        made = make_pipeline(step, private).fit(X, np.arange(40) % 2)
    assert type(step).__name__ in made[-1].guarantee_.not_covered[0]
