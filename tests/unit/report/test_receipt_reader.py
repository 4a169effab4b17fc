"""The reader that needs the standard library alone says what the library says, as far as it claims to know."""

import ast
import copy
import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sottovoce import receipt_reader
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.events import (
    KINDS,
    BoundedRangeEvent,
    ComposedEvent,
    GaussianEvent,
    NonPrivateEvent,
    NothingReleased,
    PoissonSampledEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatAndSelectEvent,
    RepeatedEvent,
)
from sottovoce.report import receipt_page, verify_receipt
from support.published_schema import SCHEMA, VALIDATOR
from support.receipts import agree, fitted, made_up, together

ROOT = Path(__file__).parents[3]
FILE = Path(receipt_reader.__file__)
SAMPLES = sorted(
    path
    for path in (ROOT / "tests/data/formats").glob("*/*.json")
    if '"sottovoce-receipt"' in path.read_text(encoding="utf-8")
)


def test_it_is_one_short_file_of_the_standard_library():
    text = FILE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 300
    tree = ast.parse(text, feature_version=(3, 9))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names


def test_a_copy_of_it_runs_where_nothing_is_installed(tmp_path):
    copied = tmp_path / "receipt_reader.py"
    copied.write_bytes(FILE.read_bytes())
    for path, code in [(SAMPLES[0], 0), (tmp_path / "none.json", 2)]:
        ran = subprocess.run([sys.executable, "-I", "-S", copied, path], cwd=tmp_path, capture_output=True, text=True)
        assert (ran.returncode, ran.stderr) == (code, "")


def test_to_load_it_from_the_library_loads_nothing_else():
    code = (
        "import sys; before = set(sys.modules); import sottovoce.receipt_reader;"
        "print([name for name in set(sys.modules) - before if name.partition('.')[0] not in sys.stdlib_module_names])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(ast.literal_eval(ran.stdout)) == {"sottovoce", "sottovoce._lazy", "sottovoce.receipt_reader"}


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_it_agrees_on_what_earlier_versions_wrote(path, tmp_path, capsys):
    said = agree(path, verify_receipt(path))
    assert said["structure"] and said["checksum"]
    assert receipt_reader.main([str(path)]) == 0
    data = json.loads(path.read_text(encoding="utf-8"))
    if "fitted" in data:
        assert said["model"]
        data["fitted"]["intercept_"] = 0.125
        (tmp_path / "changed.json").write_text(json.dumps(data))
        assert agree(tmp_path / "changed.json", verify_receipt(tmp_path / "changed.json"))["model"] is False
        assert receipt_reader.main([str(tmp_path / "changed.json")]) == 2
    told = capsys.readouterr().out
    places = [told.index(heading) for heading in ("UNIT", "PROMISE", "RESTS ON", "NOT COVERED", "CHECKED")]
    assert places == sorted(places)
    assert "plans it again" in told


# --- the sum ----------------------------------------------------------------------------------------------------------

noise = st.floats(0.3, 300.0)
pure = st.floats(1e-3, 4.0)
exact = st.one_of(
    st.builds(GaussianEvent, noise), st.builds(PureEvent, pure), st.builds(RandomizedResponseEvent, pure),
    st.just(NothingReleased()), st.just(GaussianEvent(math.inf)),
)  # fmt: skip
bounded = st.one_of(
    st.builds(PoissonSampledEvent, st.sampled_from([0.0, 0.01, 0.5, 1.0]), st.builds(GaussianEvent, noise)),
    st.builds(BoundedRangeEvent, st.floats(0.01, 1.0)),
    st.builds(RepeatAndSelectEvent, st.builds(GaussianEvent, noise), st.sampled_from([1.0, 5.0])),
)


def compositions(parts):
    repeated = st.builds(RepeatedEvent, parts, st.integers(0, 4))
    return st.builds(ComposedEvent, st.lists(parts | repeated, max_size=4).map(tuple))


def bounds(event, delta):
    found = receipt_reader.costs(json.loads(json.dumps(event.to_dict())))
    least = receipt_reader.epsilon_of(found, delta, worst=False)
    searched = any(kind == "searched" for kind, _ in found)
    return least, math.inf if searched else max(least, receipt_reader.epsilon_of(found, delta, worst=True))


@settings(deadline=None, max_examples=60)
@given(compositions(exact), st.sampled_from([0.0, 1e-300, 1e-12, 1e-6, 1e-3, 0.4]))
@example(ComposedEvent((RepeatedEvent(GaussianEvent(1e4), 3),)), 1e-6)
@example(ComposedEvent((RepeatedEvent(GaussianEvent(1.0), 10**6), RandomizedResponseEvent(700.0))), 1e-6)
@example(ComposedEvent((RepeatedEvent(PureEvent(0.1), 1_000),)), 1e-6)
def test_closed_forms_are_those_of_the_library(event, delta):
    least, most = bounds(event, delta)
    wanted = accountant_for(event).epsilon(event, delta)
    assert least == most
    assert math.isclose(least, wanted, rel_tol=5e-7, abs_tol=1e-9)
    assert least <= wanted * (1.0 + 1e-9) + 1e-12  # an honest receipt is never called wrong


@settings(deadline=None, max_examples=25)
@given(compositions(exact | bounded), st.sampled_from([1e-9, 1e-5]))
def test_what_has_no_closed_form_lies_between_the_bounds(event, delta):
    least, most = bounds(event, delta)
    wanted = accountant_for(event).epsilon(event, delta)
    assert least <= wanted * (1.0 + 1e-9) + 1e-12
    # the library rounds up what it adds up in numbers
    assert most >= wanted * (1.0 - 1e-2) - 1e-3


@pytest.mark.parametrize("name", ["seeded", "vertical local-models", "local"])
def test_a_promise_of_less_than_the_event_costs_is_wrong(name, tmp_path):
    data = json.loads(fitted(name).guarantee_.to_json())
    for factor, passed in [(1.0, True), (1.001, True), (0.999, False)]:
        (tmp_path / "receipt.json").write_text(together(data | {"epsilon": factor * data["epsilon"]}))
        said = agree(tmp_path / "receipt.json", verify_receipt(tmp_path / "receipt.json"))
        assert said["promise against event"] is passed
        assert said["checksum"]
    data["event"] = {"kind": "non-private"}
    assert dict(finding[:2] for finding in receipt_reader.findings(data))["promise against event"] is False


# --- the structure ----------------------------------------------------------------------------------------------------

VALUES = [
    None, True, -1, 0, 2, 10**400, 0.5, 1.5, "inf", "", "x", 64 * "a", [], ["x"], [1], {}, {"kind": "nothing"},
    {"kind": "gaussian", "noise_multiplier": 0}, {"kind": "gaussian", "noise_multiplier": 1, "more": 1},
    {"kind": "gaussian", "noise_multiplier": 10**400}, {"kind": "repeated", "count": 1.5, "event": {"kind": "nothing"}},
    {"kind": "repeated", "count": True, "event": {"kind": "nothing"}}, {"kind": "composed", "events": [3]},
    {"kind": "composed", "events": {}}, {"kind": "poisson-sampled", "sampling_rate": 0.5, "event": {"kind": "nothing"}},
    {"kind": []}, {"kind": "repeat-and-select", "mean": 0.5, "event": {"kind": "nothing"}},
]  # fmt: skip


def places(data, path=()):
    """Yield the way to each value that the format says something about."""
    for name, value in data.items() if isinstance(data, dict) else enumerate(data):
        yield (*path, name)
        if isinstance(value, (dict, list)) and name not in ("parameters", "statement"):
            yield from places(value, (*path, name))


@pytest.mark.parametrize(("fits", "ok"), [(None, True), (2, True), (999_999_999, True), ("0", False), ("2x", False)])
def test_a_receipt_may_say_which_fit_of_its_table_it_is_about(tmp_path, fits, ok):
    receipt = fitted("seeded").guarantee_
    data = replace(receipt, fits=fits if ok else 2).to_dict()
    data["ledger"] = data["ledger"] if ok else data["ledger"].replace("fit 2", f"fit {fits}")
    (tmp_path / "receipt.json").write_text(json.dumps(data, ensure_ascii=False, indent=2) + "\n")
    assert receipt_reader.findings(data)[0][1] is ok is VALIDATOR.is_valid(data)
    if ok:
        assert agree(tmp_path / "receipt.json", verify_receipt(tmp_path / "receipt.json"))["checksum"]


@pytest.mark.parametrize("name", ["search", "seeded"])
def test_the_structure_is_that_of_the_published_schema(name):
    whole = json.loads(fitted(name).guarantee_.to_json())
    whole["ledger"] = {"ledger": "a", "dataset": "b", "charge": "c", "entry": "d"}
    whole["schema"] = {"sha256": 64 * "0", "text": ""}
    ways = [*places(whole)]
    for way in ways[len(name) % 3 :: len(ways) // 40 + 1]:  # names differ, so do the places
        for value in (*VALUES, KeyError):
            data = copy.deepcopy(whole)
            holder = data
            for step in way[:-1]:
                holder = holder[step]
            if value is KeyError:
                del holder[way[-1]]
            else:
                holder[way[-1]] = value
            if data.get("version") != 2 or 10**400 in (value, *getattr(value, "values", list)()):
                receipt_reader.findings(data)  # either of them may say more; neither fails
                continue
            ok = receipt_reader.findings(data)[0][1]
            assert ok == VALIDATOR.is_valid(data), (way, value)


EVENTS = [
    NothingReleased(),
    NonPrivateEvent(),
    GaussianEvent(3.0),
    GaussianEvent(math.inf),
    RandomizedResponseEvent(1.0),
    PureEvent(1.0),
    BoundedRangeEvent(0.1),
    PoissonSampledEvent(0.1, GaussianEvent(3.0)),
    RepeatedEvent(GaussianEvent(3.0), 4),
    RepeatAndSelectEvent(GaussianEvent(3.0), 4.0),
    ComposedEvent((GaussianEvent(3.0), PureEvent(1.0))),
]


def test_every_kind_of_event_is_described():
    assert {event.kind for event in EVENTS} == set(KINDS)
    for event in EVENTS:
        VALIDATOR.validate(json.loads(json.dumps(made_up(event=event, epsilon=math.inf).to_dict())))
    described = {entry["properties"]["kind"]["const"] for entry in SCHEMA["$defs"].values() if "properties" in entry}
    assert described == set(KINDS)


def test_the_schema_is_one_and_names_what_a_receipt_has():
    VALIDATOR.check_schema(SCHEMA)
    data = made_up().to_dict()
    assert list(SCHEMA["properties"]) == SCHEMA["required"] == list(data)
    for name, entry in SCHEMA["properties"].items():
        assert name == "event" or len(entry["description"]) > 10


@pytest.mark.parametrize("content", [
    b"", b"\xff\xfe", b"[]", b"3", b"null", b"[" * 100_000, b"<!doctype html>", b'{"guarantee": 3}',
    b'{"guarantee": null, "format": "sottovoce-receipt"}', b'{"format": "sottovoce-receipt"}',
    b'{"format": "sottovoce-receipt", "format": "sottovoce-receipt"}', b'{"format": "sottovoce-receipt", "version": 3}',
    b'{"format": "sottovoce-receipt", "epsilon": NaN}', b'{"format": "sottovoce-receipt", "epsilon": 1e999}',
    b'{"format": "sottovoce-receipt", "epsilon": ' + b"9" * 10_000 + b"}",
])  # fmt: skip
def test_files_that_are_no_receipts_are_refused_in_words(tmp_path, capsys, content):
    (tmp_path / "file\x1b[2J.json").write_bytes(content)
    assert receipt_reader.main([str(tmp_path / "file\x1b[2J.json")]) == 2
    told = capsys.readouterr().out
    assert "WRONG" in told
    assert "\x1b" not in told


def test_a_page_is_answered_with_what_to_give(tmp_path, capsys):
    (tmp_path / "report.html").write_text(receipt_page(fitted("seeded").guarantee_), encoding="utf-8")
    assert receipt_reader.main([str(tmp_path / "report.html")]) == 2
    assert "report.html: not a receipt in JSON: " in (said := capsys.readouterr().out)
    assert "Give the file beside the page." in said


def test_what_a_stranger_wrote_moves_no_cursor(tmp_path, capsys):
    data = json.loads(fitted("seeded").guarantee_.to_json())
    data["unit"] = data["mechanism"] = "one \x1b[2Jrow \u202e\x7f\ud800\nPROMISE\n"
    data["assumptions"] = [data["unit"], "stra\u00dfe"]
    (tmp_path / "receipt.json").write_text(json.dumps(data))
    assert receipt_reader.main([str(tmp_path / "receipt.json")]) == 2
    told = capsys.readouterr().out
    assert "  - stra\u00dfe" in told
    assert all(sign.isprintable() or sign == "\n" for sign in told)
    assert told.count("\nPROMISE\n") == 1


@pytest.mark.parametrize(("arguments", "code"), [([], 2), (["-h"], 0), (["a", "b"], 2)])
def test_help(arguments, code, capsys):
    assert receipt_reader.main(arguments) == code
    assert "python receipt_reader.py model.receipt.json" in capsys.readouterr().out
