"""Shamir's shares among threads: what is opened is, bit for bit, what is in clear; failures end in words."""

import shutil
import socket
import threading
import time
from contextlib import ExitStack

import numpy as np
import pytest

from sottovoce.vertical.engines import shamir_engine
from sottovoce.vertical.engines.engine import EngineError
from sottovoce.vertical.engines.programs import Add, AddSlopes, CrossProduct, Mask
from sottovoce.vertical.engines.shamir import MODULUS
from sottovoce.vertical.engines.shamir_engine import ShamirEngine
from sottovoce.vertical.protocols.secure.joint_plan import Block, JointPlan
from support.joint import free_addresses, opened, pass_inputs
from support.lockstep import run_jointly
from support.session_certificates import session_certificates
from support.slow_link import SlowLink


def together(n, work, *, tls=None, timeout=20.0, ranks=None):
    """Let parties work in threads; return what each returned or raised."""
    addresses, found = free_addresses(n), {}

    def party(rank):
        engine = ShamirEngine(rank, addresses, None, tls and tls[rank], timeout)
        try:
            engine.start()
            found[rank] = work(engine)
        except EngineError as error:
            found[rank] = error
        finally:
            engine.close()

    threads = [threading.Thread(target=party, args=(rank,)) for rank in (range(n) if ranks is None else ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return [found.get(rank) for rank in range(n)]


def _same(program, inputs, n=3, tls=None):
    for found in together(n, lambda engine: opened(engine, program, inputs, large=2**57), tls=tls):
        for mine, expected in zip(found, program.in_clear(*inputs), strict=True):
            assert mine.dtype == np.int64
            np.testing.assert_array_equal(mine, expected)


def _inputs(program, n=300):
    numbers = np.random.default_rng(0).integers
    if isinstance(program, Add):
        return [numbers(-(2**57), 2**57, (n, 2)) for _ in range(3)]
    if isinstance(program, CrossProduct):
        return [numbers(-(2**50), 2**50, (3, 2)), *(numbers(-(2**24), 2**24, (n, d)) for d in (3, 2))]
    _, labels, sums, margins, tables = pass_inputs(n, widths=(3, 2), margin=500)
    return [labels, *sums, *margins, *tables]


@pytest.mark.parametrize(
    "program",
    [Add(), CrossProduct(), *map(AddSlopes, ((-500, 7, 3, 2), (5, -7, 0, -1), (5, 7, 1, 0), (-5, 7, 0, 0)))],
    ids=str,
)
def test_what_is_opened_is_what_programs_are_in_clear(program):
    _same(program, _inputs(program))


@pytest.mark.parametrize("n", [4, 5])
def test_more_parties_compute_the_same(n):
    """Four split products again among three of them; five withstand two."""
    program = AddSlopes((-500, 7, 3, 2))
    _same(program, _inputs(program, n=50), n)


def test_sums_of_many_pieces_are_split_again_once(monkeypatch):
    splits = []
    real = shamir_engine.split
    monkeypatch.setattr(shamir_engine, "split", lambda *args: splits.append(args[0].shape) or real(*args))
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
    monkeypatch.setattr(shamir_engine, "_PIECE", 7)
    _same(CrossProduct(), _inputs(CrossProduct(), n=5))


def test_a_variable_that_is_replaced_before_anybody_needs_it_leaves_nothing_behind():
    def work(engine):
        for number in (1, 2):
            engine.put("x", 0, (1,), np.array([number]) if engine.rank == 0 else None)
        engine.run(Mask(), ["x"], ["x"])
        found = engine.reveal("x").tolist()
        return found, any(link.came for link in engine._links._links.values())

    assert together(3, work) == [([2], False)] * 3


def test_public_bytes_come_in_the_order_of_ranks():
    found = together(3, lambda engine: engine.exchange(bytes([engine.rank]) * engine.rank))
    assert found == [[b"", b"\x01", b"\x02\x02"]] * 3


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_a_joint_training_opens_what_it_opens_in_one_process(loss):
    """Two data parties and a helper, all steps of a plan, the same noise: bit for bit."""
    rng = np.random.default_rng(3)
    tables = {name: rng.normal(size=(200, 3)) for name in ("insurer", "bank")}
    y = np.sign(tables["bank"][:, 0] + rng.normal(size=200))
    blocks = tuple(Block(name=name, n_features=3, data_norm=2.0) for name in tables)
    plan = JointPlan(
        n_samples=200, blocks=blocks, helpers=("notary",), label_holder="bank", loss=loss, alpha=1e-3, epsilon=4.0,
        delta=1e-5, engine="shamir", label_bounds=(-1.0, 1.0) if loss == "squared" else None,
    )  # fmt: skip
    _, expected = run_jointly(plan, tables, y)
    addresses = free_addresses(3)
    engines = [ShamirEngine(rank, addresses, timeout=20.0) for rank in range(3)]
    try:
        _, found = run_jointly(plan, tables, y, engines=engines)
    finally:
        for engine in engines:
            engine.close()
    assert len(found) == len(expected) == (4 if loss == "logistic" else 1)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


# ------------------------------------------------------------------ failures


def test_a_partner_that_leaves_ends_the_session():
    def work(engine):
        if engine.rank == 1:
            return "left"
        return engine.exchange(b"here")

    found = together(3, work)
    assert found[1] == "left"
    for rank in (0, 2):
        assert isinstance(found[rank], EngineError)
        assert "has left the joint computation" in str(found[rank])


def test_a_partner_that_stalls_is_waited_for_no_longer_than_allowed():
    def work(engine):
        if engine.rank == 1:
            time.sleep(1.2)
            return "late"
        return engine.exchange(b"here")

    begin = time.monotonic()
    found = together(3, work, timeout=0.5)
    assert time.monotonic() - begin < 10
    assert "party 1 did not answer within 0.45 s" in str(found[0])


def test_a_partner_that_never_comes_is_named():
    found = together(3, lambda engine: engine.exchange(b""), timeout=0.5, ranks=(0, 2))
    for rank in (0, 2):
        assert "party 1 did not connect within 0.45 s" in str(found[rank])


@pytest.mark.parametrize(
    ("message", "match"),
    [
        (b"x", "party 1 sent something of another size"),
        (b"\xff" * 8, "party 1 sent something that is no share"),
        (int(MODULUS).to_bytes(8, "little"), "party 1 sent something that is no share"),
    ],
)
def test_what_is_no_share_is_refused(message, match):
    def work(engine):
        if engine.rank == 1:
            return engine._links.swap(*engine._links.steps(), {0: message, 2: message}, ())
        engine.put("x", 1, (1,), None)
        return engine.run(Add(), ["x"], ["x"])

    found = together(3, work)
    assert match in str(found[0])
    assert match in str(found[2])


def test_a_share_that_was_changed_is_seen_at_the_opening():
    def work(engine):
        engine.put("x", 0, (2,), np.array([1, 2]) if engine.rank == 0 else None)
        engine.run(Mask(), ["x"], ["opened"])
        if engine.rank == 2:
            engine._variables["opened"].share[0] ^= np.uint64(1)
        return engine.reveal("opened")

    for each in together(3, work):
        assert "what the parties opened does not fit together" in str(each)


def test_strangers_at_the_door_do_not_disturb():
    """Garbage, and one that claims a rank that does not call, are cut off; the true partners still come."""
    addresses, found = free_addresses(3), {}
    engines = [ShamirEngine(rank, addresses, None, None, 20.0) for rank in range(3)]

    def party(rank):
        engine = engines[rank]
        try:
            engine.start()
            found[rank] = engine.exchange(bytes([rank]))
        finally:
            engine.close()

    threads = [threading.Thread(target=party, args=(rank,)) for rank in range(3)]
    threads[2].start()
    host, port = addresses[2].split(":")
    for greeting in (b"GET / HTTP/1.1\r\n\r\n", b"\x02\x00", b"\x00"):
        for _ in range(200):
            try:
                stranger = socket.create_connection((host, int(port)), timeout=5)
                break
            except OSError:
                time.sleep(0.02)
        with stranger:
            stranger.sendall(greeting)  # of the last only half a rank: it stays at the door
            if len(greeting) > 1:
                assert stranger.recv(1) == b""
    threads[0].start()
    while 0 not in engines[2]._links._links and threads[0].is_alive():
        time.sleep(0.02)
    with socket.create_connection((host, int(port)), timeout=5) as stranger:
        stranger.sendall(b"\x00\x00")  # a place that is taken by now
        assert stranger.recv(1) == b""
    threads[1].start()
    for thread in threads:
        thread.join(30)
    assert found == {rank: [b"\x00", b"\x01", b"\x02"] for rank in range(3)}


def test_partners_behind_forwarded_ports_are_called_until_they_are_there():
    """A forwarder takes calls before the partner listens, and cuts them off."""
    listens, found = free_addresses(3), {}
    with ExitStack() as stack:
        links = [stack.enter_context(SlowLink(listen, latency=0.001)) for listen in listens]
        addresses = [link.address for link in links]

        def party(rank):
            engine = ShamirEngine(rank, addresses, listens[rank], None, 20.0)
            try:
                engine.start()
                found[rank] = engine.exchange(bytes([rank]))
            finally:
                engine.close()

        threads = [threading.Thread(target=party, args=(rank,)) for rank in range(3)]
        for thread in threads:
            thread.start()
            time.sleep(0.2)
        for thread in threads:
            thread.join(30)
    assert found == {rank: [b"\x00", b"\x01", b"\x02"] for rank in range(3)}


@pytest.fixture
def tls(tmp_path):
    """Of three parties, and of a stranger who trusts the partners of the first."""
    pytest.importorskip("cryptography")
    three, others = (session_certificates(tmp_path / name, 3) for name in ("these", "others"))
    shutil.copy(three[0] / "partners.pem", others[0])
    return [*three, others[0]]


def test_partners_with_certificates_compute_over_tls(tls):
    _same(CrossProduct(), _inputs(CrossProduct(), n=5000), tls=tls)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_stranger_gets_nowhere(tls, rank):
    """Another certificate in the place of any party: nobody gets a session with it."""
    posed = [tls[3] if each == rank else tls[each] for each in range(3)]
    begin = time.monotonic()
    found = together(3, lambda engine: engine.exchange(b""), tls=posed, timeout=1.0)
    assert time.monotonic() - begin < 20
    assert all(isinstance(each, EngineError) for each in found)


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 2, 1)])
def test_a_partner_cannot_take_anothers_rank(tls, order):
    """All are trusted, each in its own place alone; the one that calls learns it at once."""
    found = together(3, lambda engine: engine.exchange(b""), tls=[tls[each] for each in order], timeout=1.0)
    assert all(isinstance(each, EngineError) for each in found)
    if order == (0, 2, 1):
        assert "has not the certificate of its card" in str(found[0])


def test_without_tls_nobody_joins_those_with(tls):
    found = together(3, lambda engine: engine.exchange(b""), tls=[tls[0], None, tls[2]], timeout=1.0)
    assert all(isinstance(each, EngineError) for each in found)
