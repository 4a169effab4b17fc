"""``aggregation="secure"`` as its users see it: models, helpers, engines, receipts, failures."""

import copy
import math

import numpy as np
import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.vertical import (
    ComputeSite,
    Helper,
    InProcessParties,
    Party,
    VerticalLasso,
    VerticalSparseLogisticRegression,
)
from sottovoce.vertical.engines.site import available_engines
from support.crossing import recorded

N = 600


def table():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (N, 12))
    return X, np.clip(X[:, 1] - X[:, 9], -1.0, 1.0)


def parties(helper=True, labels=None, **more):
    X, y = table()
    found = [
        Party(X[:, :6], name="bank", data_bound=1.0, y=y if labels is None else labels, **more),
        Party(X[:, 6:], name="clinic", data_bound=1.0, **more),
    ]
    return [*found, Helper("notary")] if helper else found


def lasso(**more):
    facts = {"aggregation": "secure", "label_bounds": (-1, 1), "radius": 2.0, "random_state": 3}
    return VerticalLasso(**{**facts, "epsilon": 8.0, "delta": 1e-5, **more})


@pytest.mark.parametrize("helper", [True, False], ids=["with a helper", "two parties"])
def test_a_joint_model_finds_the_columns_of_both(helper):
    given = parties(helper)
    model = lasso().fit(given)
    assert model.plan_.name == "secure"
    assert set(np.argsort(np.abs(model.coef_))[-2:]) == {1, 9}
    assert model.coef_[1] > 0.5 > -0.5 > model.coef_[9]
    assert model.score(given[:2], table()[1]) > 0.7
    assert model.n_rounds_ == model.plan_.joint.n_choices
    assert np.abs(model.coef_).sum() + abs(model.intercept_) <= 2.0 + 1e-9
    np.testing.assert_allclose(model.predict(given), table()[0] @ model.coef_ + model.intercept_)


def test_classes():
    y = np.where(table()[1] > 0.0, "yes", "no")
    given = parties(labels=y)
    model = VerticalSparseLogisticRegression(
        aggregation="secure", classes=["no", "yes"], radius=5.0, epsilon=8.0, delta=1e-5, random_state=1
    ).fit(given)
    assert model.score(given, y) > 0.85
    assert set(np.argsort(np.abs(model.coef_))[-2:]) == {1, 9}


def test_an_intercept_and_bounds_of_their_own():
    """A column of small entries, a shifted label: the model is in the units of the tables."""
    X, y = table()
    given = [
        Party(X[:, :6] * 2.0, name="bank", data_bound=2.0, y=y * 10.0 + 47.0),
        Party(X[:, 6:], name="clinic", data_bound=1.0),
    ]
    model = lasso(label_bounds=(34, 54), radius=15.0, epsilon=1e5, n_steps=150).fit(given)
    # steps of .1 in raw units, which do not shrink: near the least squares, not at them
    least = np.linalg.lstsq(np.column_stack([2.0 * X[:, 1], X[:, 9], np.ones(N)]), 10.0 * y + 47.0)[0]
    for got, wanted in zip((model.coef_[1], model.coef_[9], model.intercept_), least, strict=True):
        assert got == pytest.approx(wanted, rel=0.25)


def test_without_noise_it_is_the_joint_problem():
    model = lasso(epsilon=math.inf, delta=None).fit(parties())
    same = lasso(epsilon=math.inf, delta=None, aggregation="local").fit(parties(helper=False))
    assert np.array_equal(model.coef_, same.coef_)


# --- what is refused --------------------------------------------------------------------------------------------------


def test_engines_and_options_that_do_not_go_with_it():
    given = InProcessParties(parties())
    with recorded(given) as crossed:
        for changed, words in [
            ({"engine": "shamir"}, "not to be had|cannot compare"),
            ({"engine": "spu"}, "not to be had at 'bank'"),
            ({"engine": "semi2k"}, "engine must be one of"),
            ({"aggregation": "local", "engine": "spu"}, "engine='spu' is for aggregation='secure'"),
            ({"radius_shares": {"bank": 1, "clinic": 1}}, "aggregation='secure' has one"),
            ({"n_steps": 0}, "n_steps"),
            ({"residual_bound": -1.0}, "residual_bound"),
        ]:
            with pytest.raises(ParameterError, match=words):
                lasso(**changed).fit(given)
    names = {type(each.message).__name__ for each in crossed}
    assert names <= {"Describe", "Description", "Equipped", "Close", "Done"}


def test_shamir_is_refused_in_words_where_all_have_it():
    engines = {name: {"shamir": "shamir 1", "spu": "spu 1"} for name in ("bank", "clinic", "notary")}
    estimator = lasso(engine="shamir")
    estimator._engines = lambda *_: engines
    with pytest.raises(ParameterError, match="engine='shamir' cannot compare secret numbers"):
        estimator.plan(parties())
    only = lasso()
    only._engines = lambda *_: {name: {"shamir": "shamir 1"} for name in engines}
    with pytest.raises(ParameterError, match="found no engine for these 3 parties: it takes spu"):
        only.plan(parties())
    auto = lasso()
    auto._engines = lambda *_: engines
    assert auto.plan(parties()).engine == "spu"


def test_every_party_declares_a_bound():
    X, y = table()
    given = [Party(X[:, :6], name="bank", y=y, data_norm=2.0), Party(X[:, 6:], name="clinic", data_bound=1.0)]
    with pytest.raises(ParameterError, match="needs data_bound of party 'bank'"):
        lasso().fit(given)


# --- real processes ---------------------------------------------------------------------------------------------------


def test_real_processes_choose_what_the_same_numbers_are_in_clear():
    pytest.importorskip("spu")
    if "spu" not in available_engines():
        pytest.skip("spu is not to be had here")
    X, y = table()
    site = ComputeSite(timeout=60.0, engines=("spu",))
    apart = [
        Party(X[:, :6], name="bank", data_bound=1.0, y=y, computing=site),
        Party(X[:, 6:], name="clinic", data_bound=1.0, computing=site),
        Helper("notary", computing=site),
    ]
    given = lasso(n_steps=6, epsilon=2.0)
    model, clear = copy.deepcopy(given).fit(apart), given.fit(parties())
    assert model.plan_.engine == "spu"
    assert np.array_equal(model.coef_, clear.coef_)
    assert model.intercept_ == clear.intercept_
