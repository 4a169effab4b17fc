"""Results as plain data for JSON."""

import json
import math
from dataclasses import dataclass

import numpy as np

from sottovoce._plain_data import plain


@dataclass(frozen=True, slots=True)
class Row:
    delta: float
    names: tuple[str, ...]


def test_results_become_plain_data():
    found = {"rows": [Row(math.inf, ("a", "b"))], 3: {"b", "a"}, "x": np.arange(2), "y": np.float64(0.5), "z": None}
    assert plain(found) == {
        "rows": [{"delta": "inf", "names": ["a", "b"]}], "3": ["a", "b"], "x": [0, 1], "y": 0.5, "z": None,
    }  # fmt: skip
    assert json.loads(json.dumps(plain(found), allow_nan=False)) == plain(found)


def test_numbers_keep_their_kind():
    assert [type(value) for value in plain((True, 1, 1.0, "1"))] == [bool, int, float, str]
