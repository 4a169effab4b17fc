"""The listed programs: what they are in clear, the shapes they take, and the digest that parties compare."""

import numpy as np
import pytest

from sottovoce.vertical.engines.guarded import CHECKED
from sottovoce.vertical.engines.programs import (
    PROGRAMS,
    Add,
    AddScores,
    AddSlopes,
    ChooseColumn,
    Mask,
    MoveDuals,
    digest_of,
    product,
    program_from,
    program_text,
)

MOVES = MoveDuals(clip=900, offset=1500, factors=(3, 2), bounds=(200, 700))
BY_LABEL = MoveDuals(clip=900, offset=1500, factors=(2,), bounds=(3000,), by_label=True)


def _whole(*values):
    return np.array(values, dtype=np.int64)


def test_the_list_is_closed_and_pinned():
    """A change of a program's meaning or constants must change what parties compare; this pins the list itself."""
    sums = ["Add", "Mask", "CrossProduct", "MoveDuals", "AddSlopes", "AddScores"]
    assert [program.__name__ for program in PROGRAMS] == [*sums, "ChooseColumn"]
    assert [program.__name__ for program in PROGRAMS if program.opens] == ["Mask", "ChooseColumn"]
    assert digest_of(CHECKED) == "cd68b1b599215ce8de39adecdc3c2a30f4f211ec740006b6aa49137932420cbf"


def test_constants_are_part_of_the_digest():
    assert digest_of([MOVES]) != digest_of([MoveDuals(clip=901, offset=1500, factors=(3, 2), bounds=(200, 700))])
    assert digest_of([Add(), Mask()]) != digest_of([Mask(), Add()])


@pytest.mark.parametrize("program", [*CHECKED, Mask()])
def test_a_program_crosses_as_text(program):
    assert program_from(program_text(program)) == program


def test_moves_by_hand():
    """One row that is moved by the whole clip, one by less, one that fills up."""
    duals, labels = _whole(0, 0, 0), _whole(1, -1, 0)
    table = _whole(5, 7, 0).reshape(3, 1)
    z = _whole(-300, 650, 0)
    duals, sums, moves = MOVES.in_clear(duals, labels, _whole(10), _whole(100), z, table)
    # 1500 + 3 200 + 2 300 = 2700, and -1500 - 3 200 - 2 650 = -3400: both are cut to 900
    assert duals.tolist() == [900, -900, 0]
    assert sums.tolist() == [10 + 900 * 5 - 900 * 7]
    assert moves.tolist() == [100]
    # the second time: 2700 - 900 = 1800 again
    assert MOVES.in_clear(duals, labels, sums, moves, z, table)[0].tolist() == [1800, -1800, 0]


def test_moves_by_label_by_hand():
    labels, z = _whole(1, -1, 0), _whole(700, 500, 0)
    duals, sums, _ = BY_LABEL.in_clear(_whole(0, 0, 0), labels, _whole(0), _whole(0), z, _whole(1, 1, 1).reshape(3, 1))
    # clip(1500 - 1400) = 100; -clip(1500 + 1000) = -2500, cut to -900
    assert duals.tolist() == [100, -900, 0]
    assert sums.tolist() == [-800]


def test_slopes_by_hand():
    program = AddSlopes(coefficients=(-500, 7, 3, 2))
    sums, total = program.in_clear(
        _whole(1, -1, 0), _whole(0), _whole(0), _whole(3, -2, 0), _whole(10, 1, 9).reshape(3, 1)
    )
    first, second = 7 * 3 + 2 * 27 - 500 + 3 * 9, 7 * -2 + 2 * -8 + 500 - 3 * 4
    assert sums.tolist() == [10 * first + second]
    assert total.tolist() == [first + second]


@pytest.mark.parametrize("bits", [10, 25, 40, 62])
def test_products_are_exact_modulo_2_64(bits):
    """By floating point where that is exact, and never where it is not."""
    numbers = np.random.default_rng(bits)
    left, right = (numbers.integers(-(1 << bits), 1 << bits, shape) for shape in ((3, 50), (50, 4)))
    exact = left.astype(object) @ right.astype(object)
    wrapped = np.array([[(int(v) + (1 << 63)) % (1 << 64) - (1 << 63) for v in row] for row in exact], dtype=np.int64)
    assert np.array_equal(product(left, right), wrapped)


def test_products_beyond_2_53_are_not_left_to_floating_point():
    """Sums of 2^58 whose last bits count."""
    odd = np.full((1, 64), (1 << 26) - 1)
    odd[0, 0] = 2
    assert product(odd, odd.T)[0, 0] == 63 * ((1 << 26) - 1) ** 2 + 4


def test_the_largest_product_by_floating_point_is_exact():
    """Just below 2^53, where a sum is the largest whole number that a double still tells from its neighbours."""
    left, right = np.full((1, 1 << 10), 1 << 21), np.full((1 << 10, 1), (1 << 22) - 1)
    assert product(left, right)[0, 0] == (1 << 31) * ((1 << 22) - 1)
    smallest = np.array([[-(1 << 63)]])
    assert product(smallest, np.array([[1]]))[0, 0] == -(1 << 63)


def test_scores_by_hand():
    """Slopes at a corner, beyond it, and of a row that fills up."""
    program = AddScores(offset=1500, factors=(3, 2), bounds=(200, 700))
    assert program.largest == 1500 + 600 + 1400
    table = _whole(5, 7, 0).reshape(3, 1)
    sums, total = program.in_clear(_whole(1, -1, 0), _whole(10), _whole(100), _whole(-300, 650, 0), table)
    first, second = 1500 + 3 * 200 + 2 * 300, -1500 - 3 * 200 - 2 * 650
    assert sums.tolist() == [10 + 5 * first + 7 * second]
    assert total.tolist() == [100 + first + second]


def test_residuals_by_hand():
    program = AddScores(offset=0, factors=(1,), bounds=(100,), residual=True)
    sums, total = program.in_clear(
        _whole(50, 500, -500, 0), _whole(0), _whole(0), _whole(20, 0, 3, 0), _whole(1, 10, 100, 9).reshape(4, 1)
    )
    assert sums.tolist() == [30 + 1000 - 10_000]
    assert total.tolist() == [30]


@pytest.mark.parametrize(
    ("noise", "place"),
    [
        ([0] * 8, 2),  # candidates: 4, -3, 9, 2 * 3 = 6, and their negatives
        ([0, 0, 0, 3, 0, 0, 0, 0], 2),  # 9 and 9: the first one
        ([0, 0, 0, 4, 0, 0, 0, 0], 3),
        ([0, 0, 0, 0, 14, 0, 0, 0], 4),
        ([5, 0, 0, 0, 0, 6, 0, 0], 0),  # 9 three times
        ([-20] * 7 + [0], 7),
    ],
)
def test_choices_by_hand(noise, place):
    program = ChooseColumn(constant=2, n_data_parties=2)
    scores = [_whole(4, -3), _whole(9), _whole(3)]
    half = np.array(noise) // 2
    chosen = program.in_clear(*scores, half, np.array(noise) - half)
    assert [each.tolist() for each in chosen] == [[place]]
