"""A fit that ends early, anywhere: the object is as it was before, the ledger keeps what may have been spent."""

import math
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import sottovoce as sv
from sottovoce._whole_fit import _BUSY
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.vertical import VerticalLogisticRegression, split_columns

rng = np.random.default_rng(0)
X = rng.uniform(-0.5, 0.5, (60, 3))
OTHER = rng.uniform(-0.5, 0.5, (60, 2))
Y = np.where(X[:, 0] > 0, "yes", "no")
T = np.clip(X[:, 0], -1.0, 1.0)
PRIVATE = {"epsilon": 1.0, "delta": 1e-5, "random_state": 0}
RIDGE = {**PRIVATE, "data_norm": 1.0, "label_bounds": (-1.0, 1.0)}
NAMED = {**PRIVATE, "data_norm": 1.0}
LEFT = np.where(Y == "no", "left", "right")


def parties_of(table):
    half = table.shape[1] // 2
    bounds = {"data_norm": {"a": 1.0, "b": 1.0}}
    return split_columns(table, {"a": range(half), "b": range(half, table.shape[1])}, **bounds)


def search():
    inner = sv.DPLogisticRegression(data_norm=1.0, classes=["no", "yes"], max_iter=3)
    return sv.DPSearchCV(inner, {"alpha": [0.1, 1.0]}, n_iter=2, **PRIVATE)


# what makes a model, and its first and its second table with their labels
MAKERS = {
    "ridge": (lambda: sv.DPRidge(**RIDGE, solver="adassp"), X, T, OTHER, T),
    "classifier": (lambda: sv.DPLogisticRegression(**NAMED, solver="sgd", max_iter=2), X, Y, OTHER, LEFT),
    "exact": (
        lambda: sv.DPLinearSVC(epsilon=math.inf, data_norm=1.0, alpha=0.1, max_iter=3), X, Y, OTHER, LEFT
    ),
    "search": (search, X, Y, OTHER, Y),
    "vertical": (
        lambda: VerticalLogisticRegression(**PRIVATE, mechanism="local-models", labels_public=True),
        parties_of(X), Y, parties_of(OTHER), LEFT,
    ),
}  # fmt: skip
each = pytest.mark.parametrize("name", MAKERS)
pytestmark = pytest.mark.filterwarnings("ignore")  # of classes read from y, and of solvers that were stopped early

PACKAGE = str(Path(sv.__file__).parent)  # a checkout, with all packages in it, may have its name


class Interrupt:
    """Raise at the n-th call of a function of the library."""

    def __init__(self, at, error=KeyboardInterrupt):
        self.at, self.error, self.calls = at, error, 0

    def __call__(self, frame, event, _):
        path = frame.f_code.co_filename
        ours = path.startswith(PACKAGE) and not path.endswith("_whole_fit.py")
        if event == "call" and (ours or frame.f_code.co_name in ("__enter__", "__exit__")):  # also of others' managers
            self.calls += 1
            if self.calls == self.at:
                raise self.error("stop")


def run_interrupted(work, at):
    """Run ``work`` with an interrupt at the n-th call; return the error, or None, and the number of calls."""
    interrupt = Interrupt(at)
    sys.setprofile(interrupt)
    try:
        work()
    except KeyboardInterrupt as error:
        return error, interrupt.calls
    except BaseException as error:  # an interrupt inside a party's own process is told as a failure
        assert interrupt.calls >= at, error
        return error, interrupt.calls
    finally:
        sys.setprofile(None)
    return None, interrupt.calls


def places(n_calls, count=25):
    """Calls spread over a fit, dense at both ends, where attributes are set."""
    spread = np.unique(np.geomspace(1, max(n_calls - 1, 2), count // 2).astype(int))
    return sorted({*spread.tolist(), *(n_calls - spread + 1).tolist()})


def state(model):
    return pickle.dumps(
        {key: value for key, value in vars(model).items() if key not in ("plan_", "scorer_", "best_estimator_")}
    )


@each
def test_an_interrupt_anywhere_leaves_no_half_of_a_model(name):
    make, data, labels, _, _ = MAKERS[name]
    make().fit(data, labels)  # compiles
    _, n_calls = run_interrupted(lambda: make().fit(data, labels), math.inf)
    assert n_calls > 30
    ended_early = 0
    for at in places(n_calls):
        model = make()
        before = state(model)
        # the error is kept, and with it what was open where it came, as in an interpreter
        error, _ = run_interrupted(lambda model=model: model.fit(data, labels), at)
        if error is None:
            model.predict(data)
            continue
        ended_early += 1
        assert state(model) == before, at
        assert not _BUSY, at
        with pytest.raises(NotFittedError):
            model.predict(data)
    assert ended_early > 10


@each
def test_an_interrupt_anywhere_leaves_the_earlier_model_whole(name):
    make, data, labels, other, other_labels = MAKERS[name]
    model = make().fit(data, labels)
    predicted = model.predict(data)
    model.set_params(random_state=1) if name != "exact" else None
    before = state(model)
    _, n_calls = run_interrupted(lambda: make().fit(other, other_labels), math.inf)
    for at in places(n_calls, count=10)[:-3]:
        error, _ = run_interrupted(lambda: model.fit(other, other_labels), at)
        if error is None:
            break
        assert state(model) == before, at
        np.testing.assert_array_equal(model.predict(data), predicted)
    assert at > n_calls // 2
    model.fit(other, other_labels)
    assert state(model) != before


def test_the_error_says_that_the_earlier_model_is_still_there(monkeypatch):
    model = sv.DPRidge(**RIDGE, solver="adassp").fit(X, T)

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(GridGaussian, "release", stop)
    with pytest.raises(KeyboardInterrupt) as caught:
        model.fit(OTHER, T)
    assert any("still holds the model of its earlier fit" in note for note in caught.value.__notes__)
    assert model.n_features_in_ == 3


def test_with_a_ledger_a_charge_stays_from_the_first_noise_on(tmp_path):
    address = f"sqlite:///{tmp_path / 'budget.db'}"
    ledger = sv.Ledger(address)
    ledger.create("people", epsilon=1000.0, delta=1e-3, allow_nonprivate=True)
    model = sv.DPRidge(**RIDGE, solver="adassp", ledger=ledger, dataset="people")
    model.fit(X, T)
    _, n_calls = run_interrupted(lambda: model.fit(X, T), math.inf)
    drawn, release = [], GridGaussian.release

    def watched(self, *arguments):
        drawn.append(1)
        return release(self, *arguments)

    GridGaussian.release = watched
    try:
        for at in places(n_calls, count=12):
            drawn.clear()
            known = len(ledger.history("people"))
            error, _ = run_interrupted(lambda: model.fit(X, T), at)
            new = ledger.history("people")[known:]
            assert len(new) <= 1
            if drawn:  # whatever came afterwards, it counts
                assert new[0].state in ("reserved", "committed"), at
            if error is None:
                assert new[0].state == "committed"
    finally:
        GridGaussian.release = release
    assert ledger.verify().ok
