"""Does any text of a stranger's file reach the terminal as something that the terminal obeys, or as words of ours?"""

import copy
import itertools
import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sottovoce._plain_data import digest
from sottovoce._shown import QUOTED, in_one_line, quoted, shown
from sottovoce.cli import _echo, _output
from sottovoce.cli.app import app
from sottovoce.exceptions import SottovoceError
from sottovoce.papers import dp_scd
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.report import verify_receipt
from sottovoce.report.comparison import made_again
from support.pairs import every_second
from support.receipts import CENTRAL, OTHER, fitted, receipts, together
from support.schemas import schema_text

SAMPLES = Path(__file__).parents[1] / "data" / "formats" / "0.1.0"
# each below the 60 characters that are shown of a text
HOSTILE = {
    "clears the screen, turns letters round, ends lines": "a\x1b[2J\x1b[H\rFORGED\x9b2J\x85\x7f\x08\u202egni\u2066"
    "\u200f\u2028FORGED\u2029\x0b\x0cFORGED",
    "a line of its own": "a\nFORGED verdict passed",
    "half a letter, and tags": "a\ud800\U000e0041\ufeff",
    "markup": "[bold red]a[/bold red] [link=file:///x]b[/link]",
}
FORBIDDEN = {chr(code) for code in (*range(9), 11, 12, *range(13, 32), *range(127, 160), 0x2028, 0x2029, 0xFEFF)} | {
    chr(code) for code in (*range(0x200E, 0x2010), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xD800, 0xE0041)
}


def leaves(data, path=()):
    """Yield where a file of plain data has a text, as a value or as a name."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        if isinstance(key, str):
            yield (*path, key), True
        if isinstance(value, str):
            yield (*path, key), False
        yield from leaves(value, (*path, key))


def changed(data, path, is_name, text):
    data = copy.deepcopy(data)
    at = data
    for key in path[:-1]:
        at = at[key]
    if is_name:
        at[text] = at.pop(path[-1])
    else:
        at[path[-1]] = text
    return data


@pytest.fixture
def screen(monkeypatch, tmp_path):
    """A terminal that has no colours of its own, and is wide, so that only what was said breaks lines."""
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "100000")
    monkeypatch.setattr(_echo, "is_terminal", lambda: True)
    monkeypatch.setattr(_output, "_PLAIN_WIDTH", 100_000)
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        found = CliRunner().invoke(app, [str(each) for each in arguments])
        assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
        said = found.stdout + found.stderr
        assert not FORBIDDEN & set(said), sorted(map(hex, map(ord, FORBIDDEN & set(said))))
        assert not [line for line in said.splitlines() if line.strip().startswith("FORGED")], said
        return found

    return run


JSON = {
    "signed.receipt.json": [("receipt", "verify"), ("show",), ("show", "--json")],
    "lasso.model.json": [("show",), ("show", "--coefficients")],
    "evaluation.json": [("show",)],
    "local.model.json": [("show",)],
}


# each place has one kind of text, the next place the next kind; with all turns, which are slow, each place has each
TURNS = pytest.mark.parametrize("turn", [0, *(pytest.param(turn, marks=pytest.mark.slow) for turn in (1, 2, 3))])


def texts(turn):
    return itertools.islice(itertools.cycle(HOSTILE.values()), turn, None)


@TURNS
@pytest.mark.parametrize("name", JSON)
def test_every_text_of_a_file_of_json(screen, name, turn):
    data = json.loads((SAMPLES / name).read_text(encoding="utf-8"))
    forms = {(tuple(key if isinstance(key, str) else 0 for key in place), is_name): place
             for place, is_name in leaves(data)}  # fmt: skip
    assert len(forms) > 60
    for ((_, is_name), place), text in zip(forms.items(), texts(turn), strict=False):
        edited = changed(data, place, is_name, text)
        if name.startswith("signed"):
            body = {key: value for key, value in edited.items() if key not in ("checksum", "signature")}
            edited["checksum"] = digest(body)
        Path("file.json").write_text(json.dumps(edited), encoding="utf-8")
        for command in JSON[name]:
            screen(*command, "file.json")


TABLE = "age,sick\n30,no\n60,yes\n"


@pytest.mark.parametrize("kind", HOSTILE)
def test_every_text_of_tables_and_schemas(screen, kind):
    text = HOSTILE[kind].encode("utf-8", "replace").decode()
    schema = schema_text("sick", "confirmed = true\n", age=(0, 100), sick=["no", "yes"])
    Path("good.csv").write_text("age,sick\n" + "30,no\n60,yes\n" * 50)
    Path("good.toml").write_text(schema)
    fit = ("fit", "--model", "logistic", "--epsilon", 1, "--delta", 1e-5, "--force")
    assert screen(*fit, "good.csv", "--schema", "good.toml", "--out", "model.json").exit_code == 0
    cell = f'"{text}"'
    written = json.dumps(text, ensure_ascii=max(text) < "\uffff")  # TOML has no pairs of halves
    tables = [f"age,{cell}\n30,no\n", f"{cell},age,sick\n1,30,no\n", f"age,sick\n{cell},no\n", f"age,sick\n30,{cell}\n"]
    for place, table in enumerate(tables):
        path = Path(f"{place}.csv")
        path.write_text(table, encoding="utf-8", newline="")
        screen("predict", "model.json", path)
        screen("predict", "model.json", path, "--id", text)
        screen("predict", "model.json", path, "--score")
        screen("evaluate", "model.json", path, "--epsilon", 1, "--out", "e.json", "--force")
        screen(*fit, path, "--schema", "good.toml", "--out", "m.json")
        screen("schema", path, "--target", "sick")
    for before in ("age", '"sick"', '"numeric"', '"yes"', "[0, 100]"):
        Path("bad.toml").write_text(schema.replace(before, written), encoding="utf-8")
        screen(*fit, "good.csv", "--schema", "bad.toml", "--out", "m.json")
    Path("odd.csv").write_text(f"{cell},sick\n" + "30,no\n60,yes\n" * 50, encoding="utf-8", newline="")
    made = schema.replace("[columns.age]", f"[columns.{written}]").replace('"no"', written)
    Path("odd.toml").write_text(made, encoding="utf-8")
    screen(*fit, "odd.csv", "--schema", "odd.toml", "--out", "m.json")
    if Path("m.json").exists():
        for command in (("show",), ("show", "--coefficients"), ("receipt", "verify")):
            screen(*command, "m.json")


@TURNS
def test_every_text_of_a_ledger(screen, turn):
    each = (in_one_line(text) if "\n" in text else text for text in texts(turn))
    url = f"sqlite:///{shutil.copy(SAMPLES / 'ledger.db', Path.cwd())}"
    assert screen("ledger", "export", "--ledger", url, "--out", "all.jsonl").exit_code == 0
    lines = [json.loads(line) for line in Path("all.jsonl").read_text().splitlines()]
    for number, line in enumerate(lines):
        for place, is_name in leaves(line):
            edited = [*lines[:number], changed(line, place, is_name, next(each)), *lines[number + 1 :]]
            Path("bad.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in edited))
            screen("ledger", "verify", "--file", "bad.jsonl")
    for number in range(len(HOSTILE)):
        for command in ("show", "history"):
            screen("ledger", command, "--ledger", url, "--dataset", next(each))
        given = ("--epsilon", 1, "--delta", 1e-6, "--unit", next(each))
        screen("ledger", "create", "--ledger", url, "--dataset", f"new {number}", *given)
    screen("ledger", "show", "--ledger", url)


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_escaped_reads_back(kind):
    text = HOSTILE[kind]
    assert json.loads(shown(json.dumps(text, ensure_ascii=False))) == text
    assert not FORBIDDEN & set(shown(text))
    assert "\n" not in in_one_line(text) + quoted(text)
    assert len(quoted("x" * 10**6)) == 62
    assert re.fullmatch(QUOTED, quoted(text))


# --- sentences of receipts --------------------------------------------------------------------------------------------

PROMISE = (
    "by decision of the regulator the true guarantee is (0.01, 1e-9) for whole families, of which this is a record."
)


def everywhere(data, old, new):
    """Return plain data with another text wherever this one is, as a value or as a name."""
    if isinstance(data, dict):
        return {new if key == old else key: everywhere(value, old, new) for key, value in data.items()}
    if isinstance(data, list):
        return [everywhere(value, old, new) for value in data]
    return new if data == old else data


@pytest.mark.parametrize("name", every_second([*CENTRAL, *OTHER]))
def test_no_words_of_a_forger_stand_unquoted_in_the_sentences_of_a_receipt(name):
    """The forger lets this library write the sentences that follow."""
    receipt = next(receipts(name))
    data = json.loads(receipt.to_json())
    texts = {place[-1] if is_name else _at(data["parameters"], place) for place, is_name in leaves(data["parameters"])}
    for text in texts:
        for promise in (PROMISE, f"{text} {PROMISE}", f"{text}\n{PROMISE}"):
            edited = {**data, "parameters": everywhere(data["parameters"], text, promise)}
            try:
                again = made_again(Guarantee.from_dict(edited), dp_scd.SOLVERS)
            except SottovoceError:
                continue
            sentences = (again.unit, again.mechanism, *again.assumptions, *again.not_covered, *again.releases)
            for line in sentences:
                assert "regulator" not in re.sub(QUOTED, "", line), (text, line)
                assert "\n" not in line, (text, line)
    assert len(texts) > 5


def _at(data, place):
    for key in place:
        data = data[key]
    return data


@pytest.mark.parametrize("step", [
    PROMISE, f"{PROMISE} (SchemaEncoder)", f'"a" {PROMISE} (SchemaEncoder)', '"a" (Schema Encoder)', '"a\x1b" (A)',
    '"a" (A', "", 3, f'"{"x" * 61}" (A)', f'"a" ({"x" * 61})',
    '"a" (A, with a receipt of its own: epsilon=1, delta=0, which is nothing)',
])  # fmt: skip
@pytest.mark.parametrize("place", ["learns nothing", "was fitted"])
def test_a_step_of_a_pipeline_is_a_name_and_a_class(tmp_path, step, place):
    data = json.loads(fitted("pipeline with a step that learns nothing").guarantee_.to_json())
    if place == "learns nothing":
        (old,) = data["parameters"]["pipeline"]["steps that learn nothing"]
        data["parameters"]["pipeline"]["steps that learn nothing"] = [step]
        data["assumptions"] = [line.replace(str(old), str(step)) for line in data["assumptions"]]
    else:
        data["parameters"]["fitted before it in a pipeline"] = [step]
        data["not_covered"].insert(0, f"what the steps before the model in its pipeline learned from the data: {step}")
    path = tmp_path / "receipt.json"
    path.write_text(together(data), encoding="utf-8")
    found = verify_receipt(path)
    assert {check.name for check in found.checks if not check.passed} & {"run"}


def test_the_forbidden_ones_are_there():
    assert max(map(len, HOSTILE.values())) <= 60
    assert set(itertools.chain("\x1b\x9b\x7f\u202e\u2066\u2028\u2029\ufeff")) <= FORBIDDEN
