"""SPU in real processes on one machine: bit for bit what the same whole numbers are in clear.

Every kind of program is tried as a session starts (`engine.self_check`); here is what lies beyond its numbers.
"""

import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from sottovoce.vertical.engines.programs import Add, AddScores, ChooseColumn, CrossProduct, Mask, MoveDuals
from support.joint import both, environment, free_addresses, opened, pass_inputs, processes_of
from support.share_watcher import NUMBERS

pytestmark = [
    pytest.mark.slow,  # three processes import JAX, for a dozen seconds
    pytest.mark.skipif(find_spec("spu") is None, reason="SPU has a wheel for Python 3.11 on Linux x86-64 alone"),
]

N = 300
LARGEST = (1 << 63) - 1


@pytest.fixture(scope="module")
def three():
    engines = processes_of("spu", 3)
    both(engines, lambda engine: engine.start())
    yield engines
    for engine in engines:
        engine.close()


def _opened(engines, program, inputs):
    first, *others = both(engines, lambda engine: opened(engine, program, inputs))
    for other in others:
        for mine, theirs in zip(first, other, strict=True):
            assert np.array_equal(mine, theirs)
    return first


def _same(engines, program, inputs):
    for got, expected in zip(_opened(engines, program, inputs), program.in_clear(*inputs), strict=True):
        assert np.array_equal(got, expected)


MOVES = MoveDuals(clip=1 << 17, offset=1 << 17, factors=(39, 15), bounds=(39 << 11, 15 << 12))
BY_LABEL = MoveDuals(clip=1 << 17, offset=1 << 17, factors=(200,), bounds=(1 << 17,), shift=1 << 17)
SCORES = AddScores(offset=1 << 17, factors=(319, 123), bounds=(319 * 212, 123 * 516))
RESIDUALS = AddScores(offset=0, factors=(1,), bounds=(1 << 14,), shift=1)


def test_numbers_of_rows_stay_bounded_whatever_margins_and_duals_are(three):
    """What the guarantee rests on, for a party that breaks every bound."""
    z = np.array([LARGEST, -LARGEST - 1, LARGEST - 3, -LARGEST + 5, 1 << 62, -(1 << 62), 1 << 40, 0])
    n = len(z)
    zeros, one, eye = np.zeros(n, np.int64), np.zeros(1, np.int64), np.eye(n, dtype=np.int64)
    for program, labels in ((SCORES, zeros + 1), (SCORES, zeros - 1), (RESIDUALS, z[::-1].copy())):
        sums, _ = _opened(three, program, [labels, zeros, one, z, eye])
        assert np.all(np.abs(sums) <= program.largest)
    for program, duals, margins in ((MOVES, zeros, z), (BY_LABEL, zeros, z), (MOVES, z, zeros), (MOVES, -z, zeros)):
        after, sums, _ = _opened(three, program, [duals, zeros + 1, zeros, one, margins, eye])
        assert np.all(np.abs(sums) <= program.clip)
        assert np.array_equal(after, duals + sums)


@pytest.mark.parametrize(("width", "constant"), [(1, 1 << 14), (2, 0), (7, 1 << 14), (33, 0)])
def test_the_place_of_the_largest(three, width, constant):
    """Numbers up to what a plan allows, and ties: the first one."""
    numbers = np.random.default_rng(width)
    n_candidates = 2 * (width + 1 + (constant > 0))
    for large in (3, 1 << 60):
        scores = [numbers.integers(-large // 4, large // 4 + 1, size) for size in (width, 1)]
        noise = [numbers.integers(-large // 4, large // 4 + 1, n_candidates) for _ in three]
        _same(three, ChooseColumn(constant, 2), [*scores, numbers.integers(-9, 9, 1), *noise])


@pytest.mark.parametrize(("left", "right"), [(1, 1), (7, 8), (15, 7), (3, 22)])
def test_products_of_any_width(three, left, right):
    """Also wider than what is computed at once, on either side; and rows that lie otherwise in memory."""
    numbers = np.random.default_rng(left)
    inputs = [numbers.integers(-(1 << 14), 1 << 14, shape) for shape in ((left, right), (N, left), (N, 2 * right))]
    _same(three, CrossProduct(), [*inputs[:2], np.asfortranarray(inputs[2])[:, ::2]])


def test_numbers_up_to_the_bounds(three):
    """Sums just below 2^63, products of large numbers, and what is beyond: modulo 2^64, like in clear."""
    edges = np.array([[LARGEST, -LARGEST - 1, LARGEST, 0, 1 << 62, -(1 << 62), -1]])
    _same(three, Add(), [edges, edges[:, ::-1].copy(), np.full(edges.shape, -1)])
    _same(three, CrossProduct(), [np.zeros((7, 7), np.int64), edges, edges[:, ::-1].copy()])


def test_variables_are_replaced(three):
    """A step that goes on from the last one: results take the names of inputs."""

    def work(engine):
        engine.put("a", 0, (2,), np.array([1, 2]) if engine.rank == 0 else None)
        engine.put("b", 1, (2,), np.array([10, 20]) if engine.rank == 1 else None)
        for _ in range(3):
            engine.run(Add(), ["a", "b"], ["a"])
        engine.run(Mask(), ["a"], ["c"])
        found = engine.reveal("c").tolist()
        engine.drop("a", "b", "c")
        return found

    assert both(three, work) == [[31, 62]] * 3


def test_two_parties_bit_for_bit():
    """CHEETAH; the self-test at the start runs every kind of program, and this the larger numbers."""
    engines = processes_of("spu", 2)
    try:
        both(engines, lambda engine: engine.start())
        duals, labels, sums, margins, tables = pass_inputs(n=60)
        _same(engines, MOVES, [duals, labels, *sums, *margins, *tables])
        _same(engines, CrossProduct(), [np.zeros((9, 3), np.int64), tables[0][:, [0] * 9], tables[1]])
    finally:
        for engine in engines:
            engine.close()


def test_what_a_party_holds_of_anothers_numbers_is_random():
    """Counting numbers, put twice: no party alone can tell them, nor that they are the same."""
    addresses = free_addresses(3)
    commands = [[sys.executable, "-m", "support.share_watcher", str(rank), *addresses] for rank in range(3)]
    parties = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment())
        for command in commands
    ]
    held = {}
    for printed in both(parties, lambda party: party.communicate(timeout=60)[0]):
        for line in printed.splitlines():
            rank, name, *share = line.split()[:3]
            if rank in "012" and name in ("first", "again") and share:
                pairs = np.frombuffer(bytes.fromhex(share[0])[-16000:], dtype=np.uint64).reshape(1000, 2)
                # one half is the same for all numbers: that of the secret zero
                held[rank, name] = next(half.copy() for half in pairs.T if len(np.unique(half)) > 1)
    assert len(held) == 6
    for rank in "12":
        first, again = held[rank, "first"], held[rank, "again"]
        for words in (first, again, first - again, first - NUMBERS.astype(np.uint64)):
            assert len(np.unique(words)) == 1000
            bits = np.unpackbits(words.view(np.uint8)).mean()
            # 64,000 fair coins: a standard deviation is .002
            assert abs(bits - 0.5) < 0.012
    # what the two hold together is the numbers, up to the secret zero: the engine protects from one party, not from two
    both_halves = held["1", "first"] + held["2", "first"] - NUMBERS.astype(np.uint64)
    assert len(np.unique(both_halves)) == 1
