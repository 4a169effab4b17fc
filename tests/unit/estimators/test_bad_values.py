"""Strange values in every public argument: an error of ours at the latest in fit, before noise; never a crash."""

import inspect
import math
import warnings
from collections import Counter
from functools import partial

import numpy as np
import pytest

import sottovoce as sv
from sottovoce import local, vertical
from sottovoce.exceptions import SottovoceError
from support.noise import NoiseOpenedError

rng = np.random.default_rng(0)
X = rng.uniform(-0.5, 0.5, (30, 3))
T = np.clip(X[:, 0], -1.0, 1.0)
Y = np.where(T > 0, 1, 0)


class Strange:
    """An object that is nothing in particular."""


VALUES = [
    None, math.nan, math.inf, -math.inf, -1, 0, 1e-320, 1e308, 10**400, 2**63, "", "x", b"x", [], {}, (), (1,),
    [1, [2]], np.zeros(0), np.zeros((2, 2)), np.array("x"), np.array([None]), {"x": 1}, {1: 2}, {None}, object,
    Strange(), 1 + 2j, True, np.float64("nan"), np.datetime64("NaT"), range(3), lambda: None, "\ud800", "a" * 100_000,
]  # fmt: skip
PRIVATE = {"epsilon": 1.0, "delta": 1e-5}
NUMBERS, CLASSES, L1 = {"label_bounds": (-1, 1)}, {"classes": [0, 1]}, {"radius": 1.0}
NORM, ENTRIES = {"data_norm": 1.0}, {"data_bound": 0.5, **L1}
PARTIES = vertical.split_columns(
    X, {"a": [0], "b": [1, 2]}, data_norm={"a": 1.0, "b": 1.0}, data_bound={"a": 0.5, "b": 0.5}
)
LOCAL = {"epsilon": 1.0, "n_features": 3}
PROTOCOL = local.Protocol(**LOCAL)
GOOD_REPORTS = [local.Randomizer(PROTOCOL).report(row, 1) for row in X]
REPORTS = local.Aggregator(PROTOCOL)
REPORTS.add(GOOD_REPORTS)
# estimators with good arguments, and what they are fitted to
FITS = {
    sv.DPRidge: ({**NORM, **NUMBERS}, X, T),
    sv.DPLogisticRegression: ({**NORM, **CLASSES}, X, Y),
    sv.DPLinearSVC: ({**NORM, **CLASSES}, X, Y),
    sv.DPLasso: ({**ENTRIES, **NUMBERS}, X, T),
    sv.DPSparseLogisticRegression: ({**ENTRIES, **CLASSES}, X, Y),
    vertical.VerticalLogisticRegression: ({}, PARTIES, Y),
    vertical.VerticalRidge: (NUMBERS, PARTIES, T),
    vertical.VerticalLinearSVC: ({}, PARTIES, Y),
    vertical.VerticalLasso: ({**NUMBERS, **L1}, PARTIES, T),
    vertical.VerticalSparseLogisticRegression: (L1, PARTIES, Y),
}
# everything else, with good arguments
CALLS = {
    vertical.Party: {"X": X, "name": "a"},
    vertical.split_columns: {"X": X, "columns": {"a": [0], "b": [1, 2]}},
    local.Protocol: LOCAL,
    local.NumericFeature: {"name": "a", "low": 0, "high": 1},
    local.CategoricalFeature: {"name": "a", "categories": ["x", "y"]},
    local.Randomizer(PROTOCOL).report: {"x": X[0], "y": 1},
    local.Randomizer: {"protocol": PROTOCOL},
    local.Aggregator: {"protocol": PROTOCOL},
    REPORTS.fit: {},
    sv.Ledger: {"url": "sqlite:///:memory:"},
    sv.Guarantee.from_dict: {"data": {}},
}


def fit(make, X, y, **changed):
    return make(**changed).fit(X, y)


def add(reports):
    return local.Aggregator(PROTOCOL).add(reports)


# name: (callable, whose arguments it takes, good ones)
TARGETS = {
    **{make.__name__: (partial(fit, make, *given), make, {**PRIVATE, **good}) for make, (good, *given) in FITS.items()},
    **{call.__qualname__: (call, call, good) for call, good in CALLS.items()},
    "Aggregator.add": (add, add, {"reports": GOOD_REPORTS}),
}


def arguments():
    """Yield each argument of each target; where many have one of this name, every second is slow."""
    met = Counter()
    for name, (_, signature, _) in TARGETS.items():
        for argument in inspect.signature(signature).parameters:
            if argument not in ("self", "cls") and not argument.startswith("_"):
                yield pytest.param(
                    name, argument, id=f"{name}-{argument}", marks=[pytest.mark.slow] * (met[argument] % 2)
                )
                met[argument] += 1


@pytest.mark.parametrize(("name", "argument"), list(arguments()))
def test_a_strange_value_is_refused_in_words_or_taken(name, argument, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, _, good = TARGETS[name]
    for value in VALUES:
        with warnings.catch_warnings(action="ignore"):
            try:
                call(**{**good, argument: value})
            except SottovoceError as error:
                assert str(error).strip()
            except NoiseOpenedError:
                pass  # the arguments passed every check
            except Exception as error:
                pytest.fail(f"{argument}={value!r:.60}: {type(error).__name__}: {error!s:.200}")
