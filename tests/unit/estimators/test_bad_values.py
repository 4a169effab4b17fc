"""Strange values in every public argument: an error of ours at the latest in fit, before noise; never a crash."""

import inspect
import math
import warnings
from collections import Counter

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
PARTIES = {"data_norm": {"a": 1.0, "b": 1.0}, "data_bound": {"a": 0.5, "b": 0.5}}


def fit_central(make, y):
    return lambda **changed: make(**changed).fit(X, y)


def fit_vertical(make, y):
    parties = vertical.split_columns(X, {"a": [0], "b": [1, 2]}, **PARTIES)
    return lambda **changed: make(**changed).fit(parties, y)


LOCAL = {"epsilon": 1.0, "n_features": 3}
PROTOCOL = local.Protocol(**LOCAL)
GOOD_REPORTS = [local.Randomizer(PROTOCOL).report(row, 1) for row in X]
REPORTS = local.Aggregator(PROTOCOL)
REPORTS.add(GOOD_REPORTS)
# name: (callable, good arguments); arguments whose strange values are allowed to be good are told by what happens
TARGETS = {
    "DPRidge": (fit_central(sv.DPRidge, T), sv.DPRidge, {**PRIVATE, "data_norm": 1.0, "label_bounds": (-1, 1)}),
    "DPLogisticRegression": (
        fit_central(sv.DPLogisticRegression, Y),
        sv.DPLogisticRegression,
        {**PRIVATE, "data_norm": 1.0, "classes": [0, 1]},
    ),
    "DPLinearSVC": (fit_central(sv.DPLinearSVC, Y), sv.DPLinearSVC, {**PRIVATE, "data_norm": 1.0, "classes": [0, 1]}),
    "DPLasso": (
        fit_central(sv.DPLasso, T),
        sv.DPLasso,
        {**PRIVATE, "data_bound": 0.5, "radius": 1.0, "label_bounds": (-1, 1)},
    ),
    "DPSparseLogisticRegression": (
        fit_central(sv.DPSparseLogisticRegression, Y),
        sv.DPSparseLogisticRegression,
        {**PRIVATE, "data_bound": 0.5, "radius": 1.0, "classes": [0, 1]},
    ),
    "VerticalLogisticRegression": (
        fit_vertical(vertical.VerticalLogisticRegression, Y),
        vertical.VerticalLogisticRegression,
        PRIVATE,
    ),
    "VerticalRidge": (
        fit_vertical(vertical.VerticalRidge, T),
        vertical.VerticalRidge,
        {**PRIVATE, "label_bounds": (-1, 1)},
    ),
    "VerticalLinearSVC": (fit_vertical(vertical.VerticalLinearSVC, Y), vertical.VerticalLinearSVC, PRIVATE),
    "VerticalLasso": (
        fit_vertical(vertical.VerticalLasso, T),
        vertical.VerticalLasso,
        {**PRIVATE, "label_bounds": (-1, 1), "radius": 1.0},
    ),
    "VerticalSparseLogisticRegression": (
        fit_vertical(vertical.VerticalSparseLogisticRegression, Y),
        vertical.VerticalSparseLogisticRegression,
        {**PRIVATE, "radius": 1.0},
    ),
    "Party": (vertical.Party, vertical.Party, {"X": X, "name": "a"}),
    "split_columns": (
        vertical.split_columns,
        vertical.split_columns,
        {"X": X, "columns": {"a": [0], "b": [1, 2]}},
    ),
    "Protocol": (local.Protocol, local.Protocol, LOCAL),
    "NumericFeature": (local.NumericFeature, local.NumericFeature, {"name": "a", "low": 0, "high": 1}),
    "CategoricalFeature": (local.CategoricalFeature, local.CategoricalFeature, {"name": "a", "categories": ["x", "y"]}),
    "report": (local.Randomizer(PROTOCOL).report, local.Randomizer.report, {"x": X[0], "y": 1}),
    "Randomizer": (local.Randomizer, local.Randomizer, {"protocol": PROTOCOL}),
    "Aggregator": (local.Aggregator, local.Aggregator, {"protocol": PROTOCOL}),
    "Aggregator.add": (
        lambda **a: local.Aggregator(PROTOCOL).add(**a),
        local.Aggregator.add,
        {"reports": GOOD_REPORTS},
    ),
    "Aggregator.fit": (REPORTS.fit, local.Aggregator.fit, {}),
    "Ledger": (sv.Ledger, sv.Ledger, {"url": "sqlite:///:memory:"}),
    "Guarantee.from_dict": (sv.Guarantee.from_dict, sv.Guarantee.from_dict, {"data": {}}),
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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                call(**{**good, argument: value})
            except SottovoceError as error:
                assert str(error).strip()
            except NoiseOpenedError:
                pass  # the arguments passed every check
            except Exception as error:
                pytest.fail(f"{argument}={value!r:.60}: {type(error).__name__}: {error!s:.200}")
