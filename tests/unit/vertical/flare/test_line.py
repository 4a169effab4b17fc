"""The two ends of a line, with FLARE's cell played: who is there, who is there twice, and what a call comes to."""

import os
import socket
import threading
import time
from types import SimpleNamespace

import pytest

pytest.importorskip("nvflare", reason="needs the extra [vertical]")

from nvflare.fuel.f3.cellnet.defs import MessagePropKey, ReturnCode
from nvflare.fuel.f3.cellnet.utils import make_reply

from sottovoce.exceptions import PartyError
from sottovoce.vertical.flare import line as module
from sottovoce.vertical.flare.federation import Federation
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.line import CoordinatorLine, PartyLine

PARTIES = ("north", "bank")


class Cell:
    """What a cell does for a line; ``replies`` to its requests, one after the other."""

    def __init__(self):
        self.there, self.replies, self.sent, self.waiters = set(PARTIES), [], [], {}
        self.callbacks = {}
        self.communicator = SimpleNamespace(conn_manager=SimpleNamespace(connectors={}, sfm_conns={}))

    def register_request_cb(self, channel, topic, does):
        self.callbacks[topic] = does

    def set_cell_disconnected_cb(self, does):
        self.lose = lambda name: does(SimpleNamespace(get_fqcn=lambda: name))

    def set_cell_connected_cb(self, does):
        self.connect = does

    def start(self):
        pass

    stop = start

    def is_cell_connected(self, name):
        return name in self.there

    def send_request(self, channel, topic, target, message, timeout):
        self.sent.append((topic, target, message.payload))
        reply = self.replies.pop(0)
        return reply() if callable(reply) else reply


@pytest.fixture
def cell(monkeypatch):
    made = Cell()
    monkeypatch.setattr(module, "_cell", lambda *given: made)
    monkeypatch.setattr(module, "_BACK_SECONDS", 0.1)
    return made


def kit_of(tmp_path, name):
    facts = Federation(name="trial", coordinator="insurer", host="localhost", port=1, parties=PARTIES)
    kit = Kit(folder=tmp_path, kind="coordinator" if name == "insurer" else "party", name=name, federation=facts)
    kit.state.mkdir(exist_ok=True)
    return kit


@pytest.fixture
def line(cell, tmp_path):
    return CoordinatorLine(kit_of(tmp_path, "insurer"))


def greet(cell, name, process):
    message = SimpleNamespace(payload=process, get_prop={MessagePropKey.ENDPOINT: SimpleNamespace(name=name)}.get)
    return cell.callbacks["here"](message).payload


def reply(code, payload=None):
    return make_reply(code, body=payload)


def test_a_party_that_is_not_connected_is_named_before_anything_is_sent(cell, line):
    """After the time that one waits for it: connected, and known by the process that it is."""
    said = []
    greet(cell, "bank", b"1")
    with pytest.raises(PartyError, match=r"party 'north' is not connected .* after 0.1 s"):
        line.wait_for_parties(0.1, said.append, PARTIES)
    assert said == ["waiting for 'north'"]
    greet(cell, "north", b"1")
    line.wait_for_parties(0.0, said.append, PARTIES)
    cell.there.remove("bank")
    assert line.connected() == ("north",)


def test_a_party_is_there_twice_if_an_earlier_process_comes_again(cell, line, tmp_path):
    """One that begins again, however often, is not; afterwards it takes part in no run for some minutes."""
    for process in (b"1", b"1", b"2", b"2", b"3"):
        assert greet(cell, "north", process) == b"welcome"
    greet(cell, "bank", b"1")
    line.wait_for_parties(0.0, print, PARTIES)
    assert greet(cell, "north", b"2") == b"twice"
    assert greet(cell, "north", b"3") == b"welcome", "the later one goes on"
    for ask in (lambda: line.wait_for_parties(0.0, print, PARTIES), lambda: line.call("north", b"", 1.0)):
        with pytest.raises(PartyError, match=r"two processes of party 'north' were connected . s ago: .* in use twice"):
            ask()
    line.wait_for_parties(0.0, print, ["bank"])
    for moved in (-1e9, -400.0, 400.0, 86_400.0):  # a clock that is set back does not make it days
        os.utime(tmp_path / "state" / "twice" / "north", (time.time() + moved, time.time() + moved))
        line.wait_for_parties(0.0, print, PARTIES)
    for number in range(1000):
        greet(cell, "bank", str(number).encode())
    assert len(line._processes["bank"]) == 100
    for name in (b"x" * 1000, None, {"process": 1}):  # nobody fills the coordinator's memory
        assert greet(cell, "bank", name) == b"no name of a process"
    assert max(map(len, line._processes["bank"])) < 100


def test_a_call_brings_bytes_or_says_what_failed(cell, line):
    cell.replies = [reply(ReturnCode.OK, bytearray(b"answer")), reply(ReturnCode.TIMEOUT),
                    reply(ReturnCode.TARGET_UNREACHABLE), reply(ReturnCode.COMM_ERROR)]  # fmt: skip
    assert line.call("north", b"request", 1.0) == b"answer"
    assert cell.sent == [("ask", "north", b"request")]
    with pytest.raises(TimeoutError):
        line.call("north", b"", 1.0)
    for _ in range(2):
        with pytest.raises(ConnectionError):
            line.call("north", b"", 1.0)


def test_a_call_to_a_party_that_is_lost_ends_at_once(cell, line):
    """Not to another one that is."""
    waiting = {name: SimpleNamespace(targets=[name], set=threading.Event().set) for name in PARTIES}
    events = {name: threading.Event() for name in PARTIES}
    for name in PARTIES:
        waiting[name].set = events[name].set
    cell.waiters = waiting

    def lost():
        cell.lose("north")
        return reply(ReturnCode.TIMEOUT)

    cell.replies = [lost]
    with pytest.raises(ConnectionError):
        line.call("north", b"", 60.0)
    assert (events["north"].is_set(), events["bank"].is_set()) == (True, False)
    line.close()
    assert events["bank"].is_set()


def test_a_party_says_which_process_it_is_at_each_new_line(cell, tmp_path):
    asked = []
    line = PartyLine(kit_of(tmp_path, "north"), lambda raw, caller: asked.append((raw, caller)) or b"answer")
    assert cell.callbacks["ask"](SimpleNamespace(payload=memoryview(b"raw"))).payload == b"answer"
    assert asked == [(b"raw", "server")]
    assert not line.is_connected
    assert not line.is_second() and not cell.sent
    cell.there = {"server"}
    cell.connect(None)
    assert not line.is_connected, "the coordinator does not know it yet"
    cell.replies = [reply(ReturnCode.TIMEOUT), reply(ReturnCode.OK, b"welcome"), reply(ReturnCode.OK, b"twice")]
    assert not line.is_second() and not line.is_connected, "it is said again"
    assert not line.is_second() and line.is_connected
    assert not line.is_second() and len(cell.sent) == 2
    cell.connect(None)
    assert line.is_second()
    assert len({payload for _, _, payload in cell.sent}) == 1


def test_a_line_over_which_nothing_comes_is_made_anew(cell, tmp_path, monkeypatch):
    """Where a machine or a route is gone FLARE goes on to believe in it; an answered greeting shows that it is not."""
    monkeypatch.setattr(module, "_AGAIN_SECONDS", 0.05)
    monkeypatch.setattr(module, "_DEAD_SECONDS", 0.2)
    line = PartyLine(kit_of(tmp_path, "north"), lambda raw, caller: b"")
    assert not line.is_dead, "there was none yet"
    cell.there = {"server"}
    began = time.monotonic()
    while time.monotonic() - began < 0.5:
        cell.replies = [reply(ReturnCode.OK, b"welcome")]
        assert not line.is_second() and not line.is_dead
    while time.monotonic() - began < 1.0:
        cell.replies = [reply(ReturnCode.TIMEOUT)]
        assert not line.is_second()
    assert line.is_dead
    other = line.again()
    assert not other.is_dead and other._process == line._process


@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="the system does not tell when bytes came")
def test_a_line_over_which_a_long_message_comes_is_not_dead(cell, tmp_path, monkeypatch):
    """A greeting waits behind it, and the run goes on."""
    for name, seconds in (("_AGAIN_SECONDS", 0.05), ("_DEAD_SECONDS", 0.2), ("_QUIET_SECONDS", 0.4)):
        monkeypatch.setattr(module, name, seconds)
    with socket.create_server(("localhost", 0)) as listener, socket.create_connection(listener.getsockname()) as here:
        there, _ = listener.accept()
        writer = SimpleNamespace(get_extra_info={"socket": here}.get)
        cell.communicator.conn_manager.sfm_conns["1"] = SimpleNamespace(conn=SimpleNamespace(writer=writer))
        cell.there = {"server"}
        line = PartyLine(kit_of(tmp_path, "north"), lambda raw, caller: b"")
        began = time.monotonic()
        while time.monotonic() - began < 1.0:
            there.sendall(b"a part")
            cell.replies = [reply(ReturnCode.TIMEOUT)]
            assert not line.is_second() and line.is_heard and not line.is_dead
            time.sleep(0.05)
        time.sleep(0.6)
        assert not line.is_heard and line.is_dead
        there.close()
    assert not line.is_heard
