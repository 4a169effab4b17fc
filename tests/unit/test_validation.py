"""Checks of arguments: NaN never passes, and the message has name, wish, value and remedy."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce._validation import bounds, choice, filled_text, number, truth, whole_number
from sottovoce.exceptions import ParameterError

LIMITS = [{}, {"above": 0.0}, {"at_least": 0.0}, {"below": 1.0}, {"at_most": 1.0}, {"above": 0.0, "at_most": 1.0}]


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("infinite", [False, True])
@pytest.mark.parametrize("nan", [math.nan, np.nan, np.float32("nan"), -math.nan])
def test_nan_never_passes(limits, infinite, nan):
    with pytest.raises(ParameterError, match=r"beta must be a .*number.*; got .*nan"):
        number("beta", nan, infinite=infinite, **limits)


@pytest.mark.parametrize(
    "value", [True, False, np.bool_(True), "1", "nan", b"1", [1.0], (), {}, 1j, Decimal(1), np.array(1.0), object()]
)
def test_only_real_numbers_pass(value):
    with pytest.raises(ParameterError, match=r"beta must be a finite number; got .* of type \w+\."):
        number("beta", value)


def test_a_missing_number_is_called_missing():
    with pytest.raises(ParameterError, match=r"^beta is missing: give a finite number > 0\. Ask your doctor\.$"):
        number("beta", None, above=0.0, remedy="Ask your doctor.")


@pytest.mark.parametrize(
    ("value", "limits"),
    [
        (0.0, {"above": 0.0}),
        (-0.0, {"above": 0.0}),
        (-5e-324, {"at_least": 0.0}),
        (1.0, {"below": 1.0}),
        (1.0 + 2**-52, {"at_most": 1.0}),
        (math.inf, {}),
        (math.inf, {"above": 0.0}),
        (-math.inf, {"infinite": True}),
        (math.inf, {"infinite": True, "at_most": 1.0}),
        (10**400, {"above": 0.0}),
        (10**400, {"above": 0.0, "infinite": True}),
        (-(10**400), {"below": 0.0}),
        (Fraction(1, 10**400), {"above": 0.0}),
        (Fraction(10**400, 1), {}),
    ],
)
def test_numbers_out_of_range(value, limits):
    with pytest.raises(ParameterError, match="beta must be a"):
        number("beta", value, **limits)


@pytest.mark.parametrize(
    ("value", "limits"),
    [
        (5e-324, {"above": 0.0}),
        (0.0, {"at_least": 0.0}),
        (1.0 - 2**-53, {"below": 1.0}),
        (1.0, {"at_most": 1.0}),
        (math.inf, {"infinite": True, "above": 0.0}),
        (np.float32(0.5), {}),
        (np.int8(3), {}),
        (7, {}),
        (Fraction(1, 4), {"above": 0.0}),
    ],
)
def test_numbers_in_range_become_floats(value, limits):
    out = number("beta", value, **limits)
    assert type(out) is float
    assert out == value


@given(st.floats(), st.floats(-10, 10), st.floats(-10, 10))
def test_bounds_of_numbers_mean_what_they_say(value, low, high):
    for limits, inside in (
        ({"above": low, "below": high}, low < value < high),
        ({"at_least": low, "at_most": high}, low <= value <= high),
    ):
        if inside:
            assert number("x", value, **limits) == value
        else:
            with pytest.raises(ParameterError, match="x must be a finite number >"):
                number("x", value, **limits)


def test_the_message_has_everything():
    with pytest.raises(
        ParameterError, match=r"^gamma must be a finite number >= 0 and < 1; got 1\.5\. It is a probability\.$"
    ):
        number("gamma", 1.5, at_least=0.0, below=1.0, remedy="It is a probability.")
    with pytest.raises(ParameterError, match=r"^gamma must be a number > 0; got 0\.$"):
        number("gamma", 0, above=0.0, infinite=True)


@pytest.mark.parametrize("value", [1.0, 3.5, math.nan, math.inf, True, np.bool_(False), "3", np.float64(3), [3]])
def test_whole_numbers_are_integers(value):
    with pytest.raises(ParameterError, match=r"steps must be a whole number >= 1; got"):
        whole_number("steps", value, at_least=1)


@given(st.integers(), st.integers(-10, 10), st.integers(-10, 10))
def test_bounds_of_whole_numbers_mean_what_they_say(value, low, high):
    if low <= value <= high:
        assert whole_number("steps", value, at_least=low, at_most=high) == value
    else:
        with pytest.raises(ParameterError, match=f"steps must be a whole number.*; got {value}"):
            whole_number("steps", value, at_least=low, at_most=high)


def test_whole_numbers_of_other_types_and_sizes():
    assert type(whole_number("steps", np.uint8(200))) is int
    assert whole_number("steps", 10**400, at_least=0) == 10**400
    with pytest.raises(ParameterError, match=r"^steps is missing: give a whole number >= 1 and <= 9\. Why\.$"):
        whole_number("steps", None, at_least=1, at_most=9, remedy="Why.")


@pytest.mark.parametrize("value", ["c", "A", "", None, 1, ["a"], True])
def test_choices(value):
    assert choice("kind", "b", ("a", "b")) == "b"
    with pytest.raises(
        ParameterError, match=r"^kind must be one of 'a', 'b'; got .*\.( Did you mean 'a'\?)? Look it up\.$"
    ):
        choice("kind", value, ("a", "b"), remedy="Look it up.")


@pytest.mark.parametrize("value", [(0, 1), [-1.5, 2], np.array([0.0, 1.0]), (np.float32(0), 1)])
def test_bounds_that_are_good(value):
    low, high = bounds("label_bounds", value)
    assert (low, high) == (float(value[0]), float(value[1]))
    assert type(low) is type(high) is float


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "label_bounds is missing: give a pair"),
        (3.0, "must be a pair"),
        ((1.0,), "must be a pair"),
        ((1.0, 2.0, 3.0), "must be a pair"),
        ("ab", "must be a pair"),
        ((0.0, "1"), r"label_bounds\[1\] must be a finite number"),
        ((math.nan, 1.0), r"label_bounds\[0\]"),
        ((0.0, math.nan), r"label_bounds\[1\]"),
        ((0.0, math.inf), r"label_bounds\[1\]"),
        ((-math.inf, 0.0), r"label_bounds\[0\]"),
        ((None, 0.0), r"label_bounds\[0\] is missing"),
        ((1.0, 1.0), "must satisfy low < high"),
        ((2.0, 1.0), r"must satisfy low < high; got \(2\.0, 1\.0\)\. Give both\."),
    ],
)
def test_bounds_that_are_bad(value, message):
    with pytest.raises(ParameterError, match=message):
        bounds("label_bounds", value, remedy="Give both.")


def test_truth_values_and_texts():
    assert truth("private", False) is False
    assert filled_text("unit", " a row") == " a row"
    for value in (1, None, "True", np.True_):
        with pytest.raises(ParameterError, match="private must be True or False; got"):
            truth("private", value)
    for value in ("", "  ", None, 3):
        with pytest.raises(ParameterError, match="unit must be a string that is not empty; got"):
            filled_text("unit", value)
    with pytest.raises(ParameterError, match="who must be a string that is not empty, or None; got"):
        filled_text("who", "", or_none=True)
