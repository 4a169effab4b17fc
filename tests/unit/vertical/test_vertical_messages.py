"""What crosses between coordinator and party: every kind goes there and back, and nothing else is taken."""

import ast
import dataclasses
import math
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sottovoce
from sottovoce._numerics import Vector
from sottovoce.exceptions import MessageError
from sottovoce.papers import frank_wolfe
from sottovoce.vertical import Party, wire
from sottovoce.vertical.mechanisms import ANSWERS_TO
from sottovoce.vertical.requests.general import Describe, Description, KeepWeights, Score
from sottovoce.vertical.wire import Count, Done, Frame, Message, Payload, Refused, new_session
from support.party import decode, kinds

LIST = Path(__file__).parents[3] / "docs" / "make_messages.py"
STUDIED = (frank_wolfe.PROTOCOL,)  # the messages of forms for study are kinds too
KINDS = {kind.__name__: kind for kind in kinds() if kind.__module__.startswith("sottovoce.")}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
HEAD = struct.Struct("<4sHQ")

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
FIELDS = {
    int: st.integers(0, 2**63 - 1),
    float: FINITE,
    str: TEXT,
    Vector: st.lists(FINITE, max_size=12).map(np.array),
    bytes: st.binary(max_size=200),
}


def layout(kind):
    hints = get_type_hints(kind, include_extras=True)
    return [(field.name, hints[field.name]) for field in dataclasses.fields(kind)]


def contents(kind):
    return st.tuples(*(FIELDS[hint] for _, hint in layout(kind)))


def example(kind):
    """One message of the kind."""
    values = {int: 300, float: -0.5, str: "größe", Vector: [1.5, -2.0, 0.0], bytes: b"\x00\x80\xff"}
    return kind(*(values[hint] for _, hint in layout(kind)))


def same(one, other):
    return type(one) is type(other) and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name, _ in layout(type(one))
    )


# --- there and back ---------------------------------------------------------------------------------------------------


@each_kind
@given(data=st.data())
@settings(max_examples=40)
def test_round_trip(kind, data):
    message = kind(*data.draw(contents(kind)))
    raw = message.encode()
    assert type(raw) is bytes
    assert message.n_bytes == len(raw)
    back = decode(raw)
    assert same(back, message)
    assert back.encode() == raw


@each_kind
def test_nan_never_passes_and_infinity_only_where_it_was_declared(kind):
    """Neither when a message is made nor on the wire."""
    raw, at = example(kind).encode(), HEAD.size
    for place, (name, hint) in enumerate(layout(kind)):
        for wrong in (math.nan, math.inf, -math.inf):
            if hint not in (float, Vector):
                continue
            values = [getattr(example(kind), other) for other, _ in layout(kind)]
            values[place] = wrong if hint is float else np.array([1.0, wrong])
            first = at + (1 if hint == Vector else 0)
            on_the_wire = raw[:first] + struct.pack("<d", wrong) + raw[first + 8 :]
            if math.isinf(wrong) and name in kind.unbounded:
                assert getattr(decode(kind(*values).encode()), name) == wrong
                continue
            with pytest.raises(MessageError, match=f"{kind.__name__}.{name}"):
                kind(*values)
            with pytest.raises(MessageError, match=name):
                decode(on_the_wire)
        at += {int: 8, float: 8, str: 1 + len("größe".encode()), Vector: 1 + 24, Count: 2, bytes: 1 + 3}[hint]
    assert at == len(raw)
    # a bound that was not given
    assert set(kind.unbounded) == ({"data_bound", "data_norm"} if kind is Description else set())


def test_bytes_on_the_wire_are_the_documented_ones():
    assert Done().encode() == b"SVM3" + struct.pack("<HQ", 4, 0)
    assert Score("né").encode() == b"SVM3" + struct.pack("<HQ", 7, 4) + b"\x03n\xc3\xa9"
    assert Payload([1.0, -2.0], b"ab").encode() == b"SVM3" + struct.pack("<HQBdd", 16, 20, 2, 1.0, -2.0) + b"\x02ab"
    assert KeepWeights("m", [3.0]).encode() == b"SVM3" + struct.pack("<HQ", 63, 11) + b"\x01m\x01" + struct.pack(
        "<d", 3
    )
    counts = b"\x00" + b"\xac\x02" + struct.pack("<d", 1.0) + b"\x01" + struct.pack("<d", 2.0)
    counts += b"\x07" + b"\xac\x02" + b"\0"
    assert Description(0, 300, 1.0, 1, 2.0, 7, 300).encode() == b"SVM3" + struct.pack("<HQ", 15, len(counts)) + counts


# --- what is refused --------------------------------------------------------------------------------------------------


WRONG = {
    Vector: [[[1.0]], 1.0, None, "123", ["1"], [1j], [{}]],
    str: [3, b"x", "x" * 65_537, "é" * 32_769, "\ud800"],
    int: [1.5, True, -1, 2**63, "1"],
    bytes: ["ab", bytearray(b"ab"), None],
    float: ["1", True, 10**400, None],
}


@each_kind
def test_wrong_contents(kind):
    for place, (name, hint) in enumerate(layout(kind)):
        for wrong in WRONG[hint]:
            values = [getattr(example(kind), other) for other, _ in layout(kind)]
            values[place] = wrong
            with pytest.raises(MessageError, match=rf"{kind.__name__}\.{name} must"):
                kind(*values)


@given(data=st.data(), code=st.integers(0, 110), body=st.binary(max_size=120))
@settings(max_examples=500)
def test_random_bytes_are_refused_or_a_message(data, code, body):
    """Any, those behind a right head, and a message of which one byte is another; what is taken is written again."""
    turned = bytearray(example(data.draw(st.sampled_from(list(KINDS.values())))).encode())
    turned[data.draw(st.integers(0, len(turned) - 1))] ^= data.draw(st.integers(1, 255))
    raw = data.draw(st.sampled_from([body, HEAD.pack(b"SVM3", code, len(body)) + body, bytes(turned)]))
    try:
        message = decode(raw)
    except MessageError:
        return
    assert message.encode() == raw


@each_kind
def test_truncated_and_prolonged(kind):
    raw = example(kind).encode()
    for length in range(len(raw)):
        with pytest.raises(MessageError):
            decode(raw[:length])
        if length >= HEAD.size:  # also where the head says the shorter length
            with pytest.raises(MessageError, match="cut short"):
                decode(HEAD.pack(b"SVM3", kind.code, length - HEAD.size) + raw[HEAD.size : length])
    with pytest.raises(MessageError, match="says"):
        decode(raw + b"\0")
    with pytest.raises(MessageError, match="1 bytes too many"):
        decode(HEAD.pack(b"SVM3", kind.code, len(raw) + 1 - HEAD.size) + raw[HEAD.size :] + b"\0")


@pytest.mark.parametrize("length", [2, 2**20, 2**31, 2**61 - 1, 2**61, 2**61 + 1, 2**63, 2**64 - 1])
def test_a_huge_length_allocates_nothing(length):
    """A vector says how long it is; 2^61 + 1 doubles would be 8 bytes modulo 2^64. A text that is too long is left."""
    said, many = (b"".join(Describe.layout()["engines"].packed(each)) for each in (length, 2**22))
    body, text = said + struct.pack("<d", 1.0), said + b"x"
    letters = HEAD.pack(b"SVM3", Score.code, len(many) + 2**22) + many + bytes(2**22)
    tracemalloc.start()
    try:
        with pytest.raises(MessageError, match=r"cut short|more groups"):
            decode(HEAD.pack(b"SVM3", Payload.code, len(body)) + body)
        with pytest.raises(MessageError, match=r"cut short|more groups"):
            decode(HEAD.pack(b"SVM3", Score.code, len(text)) + text)
        with pytest.raises(MessageError, match="says"):
            decode(HEAD.pack(b"SVM3", Payload.code, length) + body)
        with pytest.raises(MessageError, match="bytes too many"):
            decode(letters)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_count_is_written_in_one_way_only():
    """A group of zeros behind the others, more than nine groups, or none that ends."""
    for body in (b"\x80\x00", b"\xff" * 9, b"\x80" * 9 + b"\x01", b"\xff"):
        with pytest.raises(MessageError, match=r"more groups|cut short"):
            decode(HEAD.pack(b"SVM3", Describe.code, len(body)) + body)
    most = decode(HEAD.pack(b"SVM3", Describe.code, 9) + b"\xff" * 8 + b"\x7f")
    assert most.engines == 2**63 - 1


def test_head_is_checked():
    with pytest.raises(MessageError, match="not a message of this version"):
        decode(b"SVM2" + Done().encode()[4:])
    with pytest.raises(MessageError, match="UTF-8"):
        decode(HEAD.pack(b"SVM3", Score.code, 3) + b"\x02\xff\xfe")
    for code in set(range(2000)) - {kind.code for kind in KINDS.values()}:
        with pytest.raises(MessageError, match=f"no message has kind {code}"):
            wire.decode(HEAD.pack(b"SVM3", code, 0), KINDS.values())


# --- the closed list --------------------------------------------------------------------------------------------------


def test_codes_never_change():
    """A code names a layout for ever: parties of two versions must not read each other's fields wrongly."""
    present = {name: (kind.code, len(layout(kind))) for name, kind in KINDS.items()}
    retired = {
        *(1, 2, 3, 6, 8, 9, 10, 12, 13, 20, 21, 22, 23, 30, 32, 34, 35, 40, 41, 44, 45, 46, 61, 62, 64, 70, 71, 74),
        *(31, 33, 36, 37, 68, 69, 80, 81, 82, 83, 85, 90, 91, 93, 95, 96, 98, 99, 100, 101, 102, 103, 105),
    }
    codes = {code for code, _ in present.values()}
    assert not retired & codes and len(codes) == len(KINDS) == 20
    assert present == present | {
        "Done": (4, 0), "Refused": (5, 1), "Payload": (16, 2), "Description": (15, 8), "Describe": (14, 1),
        "Afford": (39, 2), "Close": (11, 0), "Score": (7, 1), "ShowColumns": (108, 0), "KeepWeights": (63, 2),
        "TrainOnLabels": (106, 7), "TrainOnBall": (60, 9),
        "Intersect": (109, 1), "AlignTo": (84, 1),
        "Invite": (92, 1), "Connect": (97, 1), "Join": (94, 1), "Poll": (107, 2),
    }  # fmt: skip


def test_a_kind_made_elsewhere_is_not_taken():
    """A party takes the requests that it has handlers for, a coordinator the reply that is due."""

    class Stranger(Message, code=999):
        command: str

    raw = Stranger("anything").encode()
    for due in (ANSWERS_TO, (Done, Refused)):
        with pytest.raises(MessageError, match="no message has kind 999"):
            wire.decode(raw, due)
    assert set(ANSWERS_TO) < set(KINDS.values())
    for reply in set(KINDS.values()) - set(ANSWERS_TO):
        said = decode(Party(np.ones((3, 2)), name="p").handle(Frame(new_session(), example(reply).encode()).encode()))
        assert said.reason == f"not a valid message: no message has kind {reply.code} here."


def test_every_kind_is_documented():
    made = subprocess.run([sys.executable, LIST], capture_output=True, check=True, text=True).stdout
    for kind in KINDS.values():
        assert kind.__doc__ and not kind.__doc__.startswith(f"{kind.__name__}(")
        if kind.__module__.startswith("sottovoce.vertical."):  # the list has what a party answers by itself
            assert f"`{kind.__name__}`" in made
    assert made.count("`Payload` |") == 1 and "noisy numbers that all parties saw" in made  # what leaves is told


def test_nothing_in_the_package_can_execute_what_it_receives():
    """By syntax: no pickle, no eval, no import by name."""
    refused_modules = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib", "importlib"}
    refused_calls = {"eval", "exec", "compile", "__import__"}
    paths = sorted((Path(sottovoce.__file__).parent / "vertical").rglob("*.py"))
    assert any(path.name == "general.py" for path in paths)
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                whole = node.module or ""
                only_asks = whole == "importlib.metadata" or {each.name for each in node.names} == {"find_spec"}
                imported = set() if only_asks else {whole.split(".")[0]}  # versions, and what is installed
            else:
                imported = set()
            assert not imported & refused_modules, (path, node.lineno)
            if isinstance(node, ast.Call):
                assert getattr(node.func, "id", "") not in refused_calls, (path, node.lineno)
                assert not any(word.arg == "allow_pickle" for word in node.keywords), (path, node.lineno)


@pytest.mark.parametrize("engines", [2, 64, 2**62])
def test_a_flag_is_one_or_nothing(engines):
    party = Party(np.ones((3, 2)), name="clinic")
    reply = decode(party.handle(Frame(new_session(), Describe(engines).encode()).encode()))
    assert isinstance(reply, Refused) and "engines is 0 or 1" in reply.reason
