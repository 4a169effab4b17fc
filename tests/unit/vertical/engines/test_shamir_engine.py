"""Shamir's shares among threads: what is opened is, bit for bit, what is in clear; failures end in words."""

import asyncio
import contextlib
import gc
import itertools
import shutil
import socket
import ssl
import threading
import time
import warnings

import numpy as np
import pytest

from sottovoce.vertical.engines import shamir
from sottovoce.vertical.engines.engine import CHECKED, EngineError, self_check
from sottovoce.vertical.engines.links import Links, _place, _Tls
from sottovoce.vertical.engines.programs import COMPARES, Add, CrossProduct, Mask
from sottovoce.vertical.engines.shamir import (
    MODULUS,
    ShamirEngine,
    _fold,
    _turned,
    _uniform,
    add,
    combine,
    from_field,
    matmul,
    mul,
    split,
    to_field,
    total,
    weights,
)  # fmt: skip
from support.joint import free_addresses, opened
from support.session_certificates import session_certificates
from support.waiting import until


def together(n, work, *, tls=None, timeout=20.0, ranks=None, addresses=None, before=None):
    """Let parties work in threads; return what each returned or raised. ``before`` gets a rank and all engines."""
    addresses, found = addresses or free_addresses(n), {}
    engines = [ShamirEngine(rank, addresses, None, tls and tls[rank], timeout) for rank in range(n)]

    def party(rank):
        if before is not None:
            before(rank, engines)
        try:
            engines[rank].start()
            found[rank] = work(engines[rank])
        except EngineError as error:
            found[rank] = error
        finally:
            engines[rank].close()

    threads = [threading.Thread(target=party, args=(rank,)) for rank in (range(n) if ranks is None else ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return [found.get(rank) for rank in range(n)]


def greet(engine):
    return engine.exchange(bytes([engine.rank]))


GREETED = [[b"\x00", b"\x01", b"\x02"]] * 3


def computes(engine):
    """Every program that needs no comparison, bit for bit as in clear; an error in words if one is not."""
    self_check(engine, 1, [program for program in CHECKED if not isinstance(program, COMPARES)])
    return "as in clear"


@pytest.mark.parametrize("n", [3, 4, 5])  # four split products again among three of them; five withstand two
def test_what_is_opened_is_what_programs_are_in_clear(n):
    assert together(n, computes) == ["as in clear"] * n


def test_sums_of_many_pieces_are_split_again_once(monkeypatch):
    splits = []
    real = shamir.split
    monkeypatch.setattr(shamir, "split", lambda *args: splits.append(args[0].shape) or real(*args))
    rng = np.random.default_rng(1)
    pieces = [rng.integers(-100, 100, (40, 3)) for _ in range(3)]

    def work(engine):
        engine.put("total", 0, (3, 3), np.zeros((3, 3), dtype=np.int64) if engine.rank == 0 else None)
        for piece in pieces:
            engine.put("rows", 1, piece.shape, piece if engine.rank == 1 else None)
            engine.run(CrossProduct(), ["total", "rows", "rows"], ["total"])
        engine.run(Mask(), ["total"], ["opened"])
        first = engine.reveal("opened")
        # what was opened goes on being a variable like others
        engine.run(Mask(), ["opened", "total"], ["opened"])
        return first, engine.reveal("opened")

    expected = sum(piece.T @ piece for piece in pieces)
    for first, second in together(3, work):
        np.testing.assert_array_equal(first, expected)
        np.testing.assert_array_equal(second, 2 * expected)
    assert splits.count((3, 3)) == 1 + 3 + 3  # the zeros; each party's share at each of two openings


def test_long_variables_travel_in_pieces(monkeypatch):
    monkeypatch.setattr(shamir, "_PIECE", 7)
    assert together(3, computes) == ["as in clear"] * 3


def test_a_variable_that_is_replaced_before_anybody_needs_it_leaves_nothing_behind():
    def work(engine):
        for number in (1, 2):
            engine.put("x", 0, (1,), np.array([number]) if engine.rank == 0 else None)
        engine.run(Mask(), ["x"], ["x"])
        found = engine.reveal("x").tolist()
        return found, any(link.came for link in engine._links._links.values())

    assert together(3, work) == [([2], False)] * 3


# ------------------------------------------------------------------ failures


def leaves(engine):
    return "left" if engine.rank == 1 else engine.exchange(b"here")


def stalls(engine):
    if engine.rank == 1:
        time.sleep(1.2)
    return engine.exchange(b"here")


def sends(message):
    def work(engine):
        if engine.rank == 1:
            return engine._links.swap(*engine._links.due((), [8]), {0: message, 2: message}, ())
        engine._put("x", 1, (1,), None)  # not compared before: the partner does nothing else
        return engine._run(Add(), ["x"], ["x"])

    return work


@pytest.mark.parametrize(
    "messages",
    [[(1, 8)], [(2, 1 << 26)], [(2, 4), (2, 4)], [(2, 4), (1, 0)], [(0, 0)],
     [(2, 4), *((label, 1 << 20) for label in range(10**6, 10**6 + 40))], [(2**64 - 1, 2**24)]],
    ids=["of another's step", "too long", "twice", "of a step that is over", "of none", "ahead", "the last of all"],
)  # fmt: skip
def test_a_partner_fills_no_memory_with_what_nobody_waits_for(messages):
    """Messages of a label and a size: it is cut off, or they wait at its own end."""
    held = []

    def work(engine):
        links = engine._links._links.values()
        if engine.rank == 1:
            with contextlib.suppress(TimeoutError):
                for label, size in messages:
                    for link in links:
                        engine._links._do(asyncio.wait_for(link.give(label, bytes(size)), 3))
            return until(lambda: all(link._reader._eof or link._reader.exception() for link in links), seconds=30)
        try:
            engine.put("x", 0, (1,), np.array([1]) if engine.rank == 0 else None)
            return engine.exchange(b"here"), engine.exchange(b"here")
        finally:
            came = [each for link in links for each in list(link.came.values()) if each.done() and not each.cancelled()]
            held.append(sum(len(each.result()) for each in came if each.exception() is None))
            held.extend(len(link._reader._buffer) for link in links)

    first, _, last = together(3, work, timeout=3.0)
    assert isinstance(first, EngineError) and isinstance(last, EngineError)
    words = "did not answer within" if messages[-1][0] > 2 else "sent what nobody waits for"
    assert f"party 1 {words}" in f"{first} {last}"
    assert max(held) <= 2**22


def changes_a_share(engine):
    engine.put("x", 0, (2,), np.array([1, 2]) if engine.rank == 0 else None)
    engine.run(Mask(), ["x"], ["opened"])
    if engine.rank == 1:
        engine._variables["opened"].share[0] ^= np.uint64(1)
    return engine.reveal("opened")


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (leaves, "party 1 has left the joint computation"),
        (stalls, "party 1 did not answer within 0.45 s"),
        (None, "party 1 did not connect within 0.45 s"),
        (sends(b"x"), "party 1 sent what nobody waits for"),
        (sends(b"\xff" * 8), "party 1 sent something that is no share"),
        (sends(int(MODULUS).to_bytes(8, "little")), "party 1 sent something that is no share"),
        (changes_a_share, "what the parties opened does not fit together"),
    ],
    ids=["leaves", "stalls", "never comes", "short", "no share", "modulus", "changed"],
)
def test_a_partner_that_fails_or_lies_ends_the_session_in_words(work, words):
    begin = time.monotonic()
    timeout, ranks = 0.5 if work in (stalls, None) else 20.0, None if work else (0, 2)
    first, _, last = together(3, work or greet, timeout=timeout, ranks=ranks)
    assert time.monotonic() - begin < 10
    assert isinstance(first, EngineError) and isinstance(last, EngineError)
    assert words in f"{first} {last}"  # whoever hears of it first leaves the other


def test_partners_are_called_until_they_are_there():
    """A forwarded port takes calls before the partner listens, and cuts them off, or answers as another party."""
    addresses = free_addresses(3)

    def before(rank, engines):
        if rank:
            host, port = addresses[rank].split(":")
            with socket.create_server((host, int(port))) as early:
                for greeting in (b"", bytes([3 - rank, 0])):
                    with early.accept()[0] as line:
                        line.sendall(greeting)

    assert together(3, greet, addresses=addresses, before=before) == GREETED


def test_strangers_at_the_door_do_not_disturb():
    """Garbage, and one that claims a rank that does not call, are cut off; the true partners still come.

    Nothing is kept of strangers, however many they are.
    """
    addresses = free_addresses(3)
    host, port = addresses[2].split(":")

    def reached():
        with contextlib.suppress(OSError):
            return socket.create_connection((host, int(port)), timeout=5)

    def before(rank, engines):
        if rank != 1:
            return
        for greeting in (*[b"GET / HTTP/1.1\r\n\r\n"] * 20, b"\x02\x00", b"\x00", b"\x00\x00"):
            if greeting == b"\x00\x00":  # a place that is taken by now
                until(lambda: 0 in engines[2]._links._links)
            with until(reached) as stranger:
                stranger.sendall(greeting)
                if len(greeting) > 1:  # with half a rank it stays at the door
                    assert stranger.recv(1) == b""
        until(lambda: len(engines[2]._links._made) == 1)

    assert together(3, greet, addresses=addresses, before=before) == GREETED


@pytest.fixture
def tls(tmp_path):
    """Of three parties, and of a stranger who trusts the partners of the first."""
    pytest.importorskip("cryptography")
    three, others = (session_certificates(tmp_path / name, 3) for name in ("these", "others"))
    shutil.copy(three[0] / "partners.pem", others[0])
    return [*three, others[0], None]


def test_partners_with_certificates_compute_over_tls(tls):
    numbers = np.random.default_rng(0).integers
    inputs = [numbers(-(2**50), 2**50, (3, 2)), *(numbers(-(2**24), 2**24, (5000, width)) for width in (3, 2))]
    for found in together(3, lambda engine: opened(engine, CrossProduct(), inputs, large=2**57), tls=tls):
        np.testing.assert_array_equal(found[0], CrossProduct().in_clear(*inputs)[0])


@pytest.mark.parametrize("posed", [(3, 1, 2), (0, 3, 2), (0, 1, 3), (1, 0, 2), (0, 2, 1), (0, 4, 2)])
def test_nobody_gets_a_session_with_another_certificate_than_that_of_its_place(tls, posed):
    """A stranger, partners that change their places, and one without TLS; who calls learns it at once."""
    begin = time.monotonic()
    found = together(3, greet, tls=[tls[each] for each in posed], timeout=1.0)
    assert time.monotonic() - begin < 20
    assert all(isinstance(each, EngineError) for each in found)
    if posed == (0, 2, 1):
        assert "has not the certificate of its card" in str(found[0])


@pytest.mark.parametrize(
    ("rank", "when", "what"),
    [(0, "shaken", "_over"), (1, "shaken", "_over"), (1, "accepted", "_over"), (1, "accepted", "_complete")],
    ids=["who calls", "who is called", "at the door", "at a door that closes"],
)
def test_a_session_that_ends_while_a_line_is_made_leaves_none_open(tmp_path, rank, when, what):
    """However many turns of the loop later; the partner shakes hands and says nothing then, not even goodbye.

    The door closes, too, when all are there.
    """
    pytest.importorskip("cryptography")
    folders, handshake, accept = session_certificates(tmp_path, 2), ssl.SSLObject.do_handshake, socket.socket.accept
    theirs, ended = _Tls(folders[1 - rank], 1 - rank, 2), threading.Event()
    links = []

    def ends(turns):
        if turns:
            asyncio.get_running_loop().call_soon(ends, turns - 1)
        else:
            for each in links:
                getattr(each, what).set()

    def reached(place):
        with contextlib.suppress(OSError):
            return socket.create_connection(place, timeout=5)

    def shakes_hands(place, door):
        line, context = (until(lambda: reached(place)), theirs.client) if rank else (accept(door)[0], theirs.server)
        with contextlib.suppress(OSError), line, context.wrap_socket(line, server_side=not rank):
            ended.wait(20)

    for turns in range(8):
        addresses = free_addresses(2)
        with contextlib.ExitStack() as stack:
            door = None if rank else stack.enter_context(socket.create_server(_place(addresses[1])))
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            if when == "shaken":
                patch.setattr(ssl.SSLObject, "do_handshake", lambda self, n=turns: (handshake(self), ends(n)))
            else:
                patch.setattr(socket.socket, "accept", lambda self, n=turns: (accept(self), ends(n))[0])
            links.append(Links(rank, addresses, None, folders[rank], 20.0))
            partner = threading.Thread(target=shakes_hands, args=(_place(addresses[1]), door))
            partner.start()
            stack.callback(partner.join)
            stack.callback(ended.set)
            told = stack.enter_context(warnings.catch_warnings(record=True))
            warnings.simplefilter("always", ResourceWarning)
            with pytest.raises(EngineError, match="is over") if what == "_over" else contextlib.nullcontext():
                links[0].open()
            begin = time.monotonic()
            links.pop().close()
            assert time.monotonic() - begin < 2
            gc.collect()
            assert [str(each.message) for each in told] == [], turns
        ended.clear()


EDGES = [0, 1, 2, 2**20, 2**21 - 1, 2**21, 2**30, 2**31 - 1, 2**31, 2**41, 2**60, MODULUS - 2, MODULUS - 1]


def _numbers(rng, shape):
    return rng.integers(0, MODULUS, shape, dtype=np.uint64)


def _python(values):
    return values.astype(object)


def test_sums_and_products_are_those_of_whole_numbers():
    rng = np.random.default_rng(0)
    pairs = np.array(list(itertools.product(EDGES, EDGES)), dtype=np.uint64)
    left = np.concatenate([pairs[:, 0], _numbers(rng, 1000)])
    right = np.concatenate([pairs[:, 1], _numbers(rng, 1000)])
    np.testing.assert_array_equal(_python(add(left, right)), (_python(left) + _python(right)) % MODULUS)
    np.testing.assert_array_equal(_python(mul(left, right)), _python(left) * _python(right) % MODULUS)
    assert int(total(left)[0]) == int(_python(left).sum()) % MODULUS
    for by in (0, 1, 21, 41, 60, 61, 62, 82):
        np.testing.assert_array_equal(_python(_turned(left, by)), _python(left) * 2**by % MODULUS)
    top = np.array([2**64 - 1, 2**64 - 2, 2 * MODULUS, 2 * MODULUS - 1, MODULUS], dtype=np.uint64)
    np.testing.assert_array_equal(_python(_fold(top.copy())), _python(top) % MODULUS)


@pytest.mark.parametrize("n", [1, 7, 2048, 2049, 5000])
def test_products_of_matrices_are_those_of_whole_numbers(n):
    rng = np.random.default_rng(n)
    left, right = _numbers(rng, (n, 2)), _numbers(rng, (n, 3))
    np.testing.assert_array_equal(_python(matmul(left, right)), _python(left).T @ _python(right) % MODULUS)
    np.testing.assert_array_equal(_python(matmul(left, left)), _python(left).T @ _python(left) % MODULUS)


def test_no_sum_of_limbs_is_rounded():
    """All limbs at their largest: the sums come as close to 2^53 and 2^64 as they can."""
    for n in (4096, 8191):  # an odd number of odd products: no float beyond 2^53 is their sum
        for largest in (MODULUS - 1, 2**21 - 1, 2**61 - 2**41 - 1):
            rows = np.full((n, 1), largest, dtype=np.uint64)
            assert int(matmul(rows, rows)[0, 0]) == largest**2 * n % MODULUS
    assert (2**21 - 1) ** 2 * 2048 < 2**53


def test_signed_numbers_come_back():
    values = np.array([0, 1, -1, 2**60 - 1, -(2**60) + 1])
    np.testing.assert_array_equal(from_field(to_field(values)), values)


@pytest.mark.parametrize(("threshold", "n_parties"), [(1, 3), (1, 4), (2, 5), (3, 8)])
def test_any_shares_above_the_threshold_give_the_secret(threshold, n_parties):
    secret = _numbers(np.random.default_rng(1), (4, 5))
    shares = split(secret, threshold, n_parties)
    for places in itertools.combinations(range(1, n_parties + 1), threshold + 1):
        np.testing.assert_array_equal(combine([shares[i - 1] for i in places], places), secret)
    places = range(1, threshold + 2)
    for at in range(1, n_parties + 1):
        np.testing.assert_array_equal(combine(shares[: threshold + 1], places, at), shares[at - 1])


def test_shares_say_nothing_alone():
    """A party's share of a fixed number is uniform: mean and spread of 20,000 draws."""
    for share in split(np.full(20_000, 5, dtype=np.uint64), 1, 3):
        unit = share.astype(float) / MODULUS
        assert abs(unit.mean() - 0.5) < 5 / np.sqrt(12 * 20_000)
        assert abs(np.quantile(unit, 0.1) - 0.1) < 0.015
        assert len(np.unique(share)) == 20_000


def test_a_draw_that_is_no_number_of_the_field_is_drawn_again(monkeypatch):
    """61 ones are not below the prime."""
    draws = [np.array([2**64 - 1, 5, MODULUS], dtype=np.uint64), np.array([7, 2**64 - 1], dtype=np.uint64)]
    draws.append(np.array([2**61 + 9], dtype=np.uint64))
    monkeypatch.setattr("os.urandom", lambda n_bytes: draws.pop(0).tobytes())
    assert _uniform((3,)).tolist() == [7, 5, 9]


def test_shares_are_mpycs():
    """What MPyC splits is put together here, and the other way round."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["mpyc", "--no-log"])
        finfields = pytest.importorskip("mpyc.finfields")
        from mpyc import thresha
    field = finfields.GF(MODULUS)
    secret = _numbers(np.random.default_rng(2), 50)
    theirs = thresha.np_random_split(field, _python(secret), 2, 5)
    np.testing.assert_array_equal(combine([row.astype(np.uint64) for row in theirs[:3]], (1, 2, 3)), secret)
    ours = split(secret, 2, 5)
    found = thresha.np_recombine(field, [(place, _python(ours[place - 1])) for place in (2, 4, 5)])
    np.testing.assert_array_equal(np.array([int(value) % MODULUS for value in found], dtype=np.uint64), secret)
    assert weights((1, 2, 3)) == thresha._recombination_vector(field, (1, 2, 3), 0)
