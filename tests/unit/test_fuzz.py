"""Every reader of files and messages: whatever the bytes, an error of ours or an answer, and little memory.

The same readers run for long in ``benchmarks/audit/fuzz.py``.
"""

import contextlib
import random
import re
import resource
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sottovoce.exceptions import MessageError, ParameterError, SchemaError
from sottovoce.local import Aggregator
from sottovoce.local.features import feature_from_json
from sottovoce.tables import Schema
from support.readers import READERS, SCHEMA

CASES = 300
_ROOM = 2**30  # bytes beyond what the process has: a length in a header must not be believed
each_reader = pytest.mark.parametrize("name", READERS)
_watched: list[str] = []
_FORBIDDEN = ("os.system", "os.exec", "os.spawn", "subprocess.Popen", "pickle.find_class", "socket.connect")
_hooked: list[bool] = []


def _watch(event, _):
    if _hooked and event in _FORBIDDEN:
        _watched.append(event)


sys.addaudithook(_watch)


@contextlib.contextmanager
def confined():
    """Refuse a large allocation, and note any attempt to run or load something."""
    if not sys.platform.startswith("linux"):
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123  no file on a disk
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + _ROOM, before[1]))
    _hooked.append(True)
    _watched.clear()
    try:
        yield
    finally:
        _hooked.clear()
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert not _watched


@each_reader
def test_changed_examples(name):
    reader, rng = READERS[name], random.Random(name)
    examples = reader.examples()
    assert all(reader.accepts(raw) for raw in examples)
    with confined():
        for _ in range(CASES // 10 if name == "CSV" else CASES):
            reader.accepts(reader.change(rng, rng.choice(examples)))


@each_reader
@given(raw=st.binary(max_size=200) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass")))
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_noise(name, raw):
    READERS[name].accepts(raw)


@pytest.mark.parametrize("name", ["model", "receipt", "local model"])
def test_no_name_is_given_twice(name):
    """`receipt verify` refuses it, and of two readers one may take the first and the other the last."""
    raw = READERS[name].examples()[0]
    for found in re.finditer(rb'"\w+": ', raw):
        place = found.start()
        assert not READERS[name].accepts(raw[:place] + found[0] + b"null, " + raw[place:]), found[0]


def test_the_watch_sees_what_it_should():
    import subprocess

    with pytest.raises(AssertionError), confined():
        subprocess.run([sys.executable, "-c", ""], check=True)
    with pytest.raises(MemoryError), confined():
        bytearray(2**31)


# --- what the fuzzing found -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["a." * 20_000, "x = " + "[" * 100_000, "[" + "a." * 20_000 + "a]", "x = {" + "'a' . " * 20_000 + "b = 1}"],
)
def test_a_schema_of_endless_keys_or_brackets_is_refused_at_once(tmp_path, text):
    path = tmp_path / "schema.toml"
    path.write_bytes(SCHEMA + text.encode())
    with pytest.raises(SchemaError, match=r"no schema|not a schema|not valid TOML"):
        Schema.from_toml(path)


def test_a_long_list_of_numbers_or_names_is_no_long_key(tmp_path):
    path = tmp_path / "schema.toml"
    bins = ", ".join(f"{25 + k / 100}" for k in range(500))
    names = ", ".join(f'"a.b{k}"' for k in range(500))
    text = SCHEMA.decode().replace("25, 40, 65", bins).replace('"private", "state"', names)
    path.write_text(text)
    assert len(Schema.from_toml(path).columns) == 5


def test_a_type_of_a_feature_that_is_no_text():
    with pytest.raises(ParameterError, match="a feature must be an object of type"):
        feature_from_json({"type": ["numeric"]})


def test_an_aggregator_with_a_deep_header():
    import hashlib

    header = b"[" * 20_000
    content = b"SVREPSUM" + len(header).to_bytes(4, "little") + header
    with pytest.raises(MessageError, match="cannot be read"):
        Aggregator.from_bytes(content + hashlib.sha256(content).digest())
