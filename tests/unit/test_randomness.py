"""Random streams: seeded by the operating system, one for each purpose, never shared."""

import copy
import pickle

import numpy as np
import pytest
from randomgen import AESCounter

from sottovoce._kept import StoredKey
from sottovoce.exceptions import ParameterError
from sottovoce.randomness import Purpose, Streams

SIZE = 2000


def bits(streams, purpose, size=SIZE):
    return streams.generator(purpose).integers(0, 2**64, size=size, dtype=np.uint64)


def ones(words):
    return int(np.unpackbits(words.view(np.uint8)).sum())


@pytest.mark.parametrize("seed", [0, 1, 7, 2**32, 2**63 - 1, np.int64(7), np.uint8(7)])
def test_a_seed_repeats_every_stream(seed):
    for purpose in Purpose:
        assert np.array_equal(bits(Streams(seed), purpose), bits(Streams(int(seed)), purpose))


def test_seeds_and_purposes_give_different_streams():
    seeds = [0, 1, 2, 3, 2**32, 2**32 + 1, (1 << 32) | 2, (2 << 32) | 1, 2**63 - 1]
    firsts = {tuple(bits(Streams(seed), purpose, 4)) for seed in seeds for purpose in Purpose}
    assert len(firsts) == len(seeds) * len(Purpose)


@pytest.mark.parametrize("seed", [None, 3])
def test_purposes_share_no_bits(seed):
    streams = Streams(seed)
    drawn = {purpose: bits(streams, purpose) for purpose in Purpose}
    for first in Purpose:
        for second in Purpose:
            if first is second:
                continue
            assert not np.intersect1d(drawn[first], drawn[second]).size
            # bitwise agreement of independent streams: binomial(64 SIZE, 1/2); 6 standard deviations are 2e-9
            assert abs(ones(drawn[first] ^ drawn[second]) - 32 * SIZE) < 6 * 4 * np.sqrt(SIZE)


def test_what_one_purpose_draws_does_not_move_another():
    quiet, busy = Streams(5), Streams(5)
    busy.generator(Purpose.SAMPLING).standard_normal(12_345)
    assert np.array_equal(bits(quiet, Purpose.NOISE), bits(busy, Purpose.NOISE))


def test_purposes_keep_their_numbers():
    """They are part of the derived keys: a change would change every seeded run."""
    assert {purpose.name: purpose.value for purpose in Purpose} == {
        "NOISE": 1,
        "SAMPLING": 2,
        "SHUFFLING": 3,
        "PERSONS": 4,
        "HOLDING_OUT": 5,
    }


def test_no_global_state_is_read_or_moved():
    """A fixed global seed must not fix the noise, and a fit must not disturb the caller's own numbers."""
    before = np.random.get_state()  # noqa: NPY002
    drawn = []
    try:
        for _ in range(2):
            np.random.seed(0)  # noqa: NPY002
            drawn.append(bits(Streams(), Purpose.NOISE))
            assert np.random.randint(2**31) == np.random.RandomState(0).randint(2**31)  # noqa: NPY002
    finally:
        np.random.set_state(before)  # noqa: NPY002
    assert not np.intersect1d(*drawn).size


@pytest.mark.parametrize(
    ("key", "first_block"),
    [
        (bytes(16), "66e94bd4ef8a2c3b884cfa59ca342b2e"),  # AES-128 of zeros under zeros, as in NIST SP 800-38D
        (bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c"), "7df76b0c1ab899b33e42f047b91b546f"),  # the key of FIPS 197
    ],
)
def test_the_generator_is_aes(key, first_block):
    """The bits are the counter mode key stream: block 0 is the encryption of zeros."""
    raw = AESCounter(key=int.from_bytes(key, "little")).random_raw(2)
    assert raw.astype("<u8").tobytes().hex() == first_block


def test_every_stream_is_aes_under_its_own_key():
    for seed in (None, 1):
        assert isinstance(Streams(seed).generator(Purpose.NOISE).bit_generator, AESCounter)
    keys = {Streams().generator(Purpose.NOISE).bit_generator.state["s"]["seed"].tobytes() for _ in range(20)}
    assert len(keys) == 20


@pytest.mark.parametrize(
    "make", [lambda: np.random.default_rng(3), lambda: np.random.RandomState(3)], ids=["Generator", "RandomState"]
)
def test_a_generator_gives_a_seed_and_moves_on(make):
    generator = make()
    one, two = Streams(generator), Streams(generator)
    again = make()
    for streams in (one, two):
        assert streams.seeded
        assert np.array_equal(bits(streams, Purpose.NOISE), bits(Streams(again), Purpose.NOISE))
    assert not np.array_equal(bits(Streams(make()), Purpose.NOISE), bits(Streams(again), Purpose.NOISE))


def test_runs_are_marked():
    assert [Streams(seed).seeded for seed in (0, np.int32(0), 17, None)] == [True, True, True, False]
    assert Streams().seeded is False


@pytest.mark.parametrize(
    "bad",
    [-1, 2**63, 1.0, np.float64(1), True, False, np.bool_(True), "1", "None", b"1", (), [1, 2], np.array(3), np.random,
     np.random.SeedSequence(1), np.random.PCG64(1), object()],
)  # fmt: skip
def test_other_random_states_are_refused(bad):
    with pytest.raises(ParameterError, match=r"random_state must be None, a whole number in \[0, 2\*\*63\)") as caught:
        Streams(bad)
    assert "Leave it None for a private run" in str(caught.value)


# --- keys on disk -----------------------------------------------------------------------------------------------------

SECRET = bytes(range(32))


def derived():
    key = StoredKey(SECRET)
    return [
        key, StoredKey(bytes(32)), key.within(b"a"), key.within(b"b"), key.within(b"a", b"b"), key.within(b"ab"),
        key.within(b"a").within(b"b"), key.within(b""), key.within(),
    ]  # fmt: skip


def test_a_stored_key_gives_names_and_no_noise():
    names = {key.name(16) for key in derived()}
    assert len(names) == len(derived())
    assert all(len(name) == 16 for name in names)
    assert StoredKey(SECRET).name(16) != SECRET[:16]
    with pytest.raises(ParameterError, match="random_state must be None"):
        Streams(StoredKey(SECRET))


@pytest.mark.parametrize("secret", [b"", bytes(31), bytes(33), "x" * 32, 7])
def test_a_stored_key_is_32_bytes(secret):
    with pytest.raises(ParameterError, match="32 bytes"):
        StoredKey(secret)


def test_a_stored_key_does_not_travel():
    for holder in (StoredKey(SECRET), Streams().generator(Purpose.NOISE)):
        for travel in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be copied or pickled: two holders would"):
                travel(holder)
    assert repr(StoredKey(SECRET)) == "StoredKey(...)"
