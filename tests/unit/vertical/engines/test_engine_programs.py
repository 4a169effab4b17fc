"""The listed programs: what they are in clear, the shapes they take, and the digest that parties compare."""

import numpy as np
import pytest

from sottovoce.vertical.engines.engine import CHECKED
from sottovoce.vertical.engines.programs import (
    PROGRAMS,
    Add,
    ChooseColumn,
    Mask,
    digest_of,
    product,
    program_from,
    program_text,
)


def _whole(*values):
    return np.array(values, dtype=np.int64)


def test_the_list_is_closed_and_pinned():
    """A change of a program's meaning or constants must change what parties compare; this pins the list itself."""
    sums = ["Add", "Mask", "CrossProduct", "MoveDuals", "AddSlopes", "AddScores"]
    assert [program.__name__ for program in PROGRAMS] == [*sums, "ChooseColumn"]
    assert [program.__name__ for program in PROGRAMS if program.opens] == ["Mask", "ChooseColumn"]
    assert digest_of(CHECKED) == "ba8dc4b2cfe07cdb95594503d0665c1ecdde739e798d7984ee83680f1b574b5d"


@pytest.mark.parametrize("program", [*CHECKED, Mask()], ids=str)
def test_a_program_crosses_as_text_and_its_constants_are_part_of_the_digest(program):
    assert program_from(program_text(program)) == program
    others = [each for each in (*CHECKED, Mask()) if each != program]
    assert digest_of([program]) not in {digest_of([each]) for each in others}
    assert digest_of([program, Add()]) != digest_of([Add(), program]) or program == Add()


@pytest.mark.parametrize("bits", [10, 25, 40, 62])
def test_products_are_exact_modulo_2_64(bits):
    """By floating point where that is exact, and never where it is not."""
    numbers = np.random.default_rng(bits)
    left, right = (numbers.integers(-(1 << bits), 1 << bits, shape) for shape in ((3, 50), (50, 4)))
    exact = left.astype(object) @ right.astype(object)
    wrapped = np.array([[(int(v) + (1 << 63)) % (1 << 64) - (1 << 63) for v in row] for row in exact], dtype=np.int64)
    assert np.array_equal(product(left, right), wrapped)


def test_products_at_the_end_of_what_floating_point_tells_apart():
    """Just below 2^53 by it; sums of 2^58, whose last bits count, without."""
    odd = np.full((1, 64), (1 << 26) - 1)
    odd[0, 0] = 2
    assert product(odd, odd.T)[0, 0] == 63 * ((1 << 26) - 1) ** 2 + 4
    left, right = np.full((1, 1 << 10), 1 << 21), np.full((1 << 10, 1), (1 << 22) - 1)
    assert product(left, right)[0, 0] == (1 << 31) * ((1 << 22) - 1)
    smallest = np.array([[-(1 << 63)]])
    assert product(smallest, np.array([[1]]))[0, 0] == -(1 << 63)


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
