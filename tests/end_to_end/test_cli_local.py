"""``sottovoce local`` from the schema to a model, through a real collector, and every wrong use with its message."""

import json
import re
import stat

import httpx
import numpy as np
import pyarrow.parquet as pq
import pytest

from sottovoce.local import LocalModel, Protocol
from sottovoce.local.collector.storage import ReportStore, Row
from sottovoce.local.collector.tokens import token_hash
from sottovoce.local.wire import parse_many
from support.collector import PROTOCOL, SCHEMA, new_token, report, running_collector, write_people
from support.commands import run

N = 600  # with 300 the model of reports erred in more than 15 % once in some 10,000 runs


def invoke(*arguments, code=0):
    result = run("local", *arguments)
    assert result.exit_code == code, result.output
    return re.sub(r"\s+", " ", result.output)


@pytest.fixture
def folder(tmp_path):
    write_people(tmp_path, N)
    return tmp_path


def test_from_a_schema_to_a_model(folder):
    protocol, people = folder / "protocol.json", folder / "people.csv"
    said = invoke("protocol", "--schema", folder / "schema.toml", "--epsilon", 8, "--n-expected", N, "--out", protocol)
    assert "epsilon = 8, pure local differential privacy" in said
    described = Protocol.from_json(protocol.read_text())
    assert (described.classes, described.degree) == (("no", "yes"), 1)
    invoke("tokens", protocol, "--key", folder / "key", "--count", N, "--out", folder / "tokens")
    options = ("--label", "ill", "--tokens", folder / "tokens")
    invoke("randomize", protocol, people, *options, "--out", folder / "reports.jsonl")
    secrets = [folder / name for name in ("key", "tokens", "reports.jsonl")]  # each lets its reader send reports
    assert [stat.S_IMODE(path.stat().st_mode) for path in secrets] == [0o600] * 3
    entries = [json.loads(line) for line in (folder / "reports.jsonl").read_text().splitlines()]
    assert len(entries) == N
    database = f"sqlite:///{folder / 'reports.db'}"
    with running_collector(folder, database, "--token-key", str(folder / "key"), protocol=described) as collector:
        answer = httpx.post(f"{collector.url}/reports", json=entries).json()
        assert answer == {"results": [{"status": "accepted"}] * N}
        assert httpx.post(f"{collector.url}/reports", json=entries[0] | {"token": new_token()}).status_code == 403
        assert "any token is accepted" not in collector.log.read_text()
    # from the database of a collector that was killed, and from exports of it: the same model
    for name in ("all.parquet", "all.reports"):
        assert f"{N} reports in" in invoke("export", protocol, "--database", database, "--out", folder / name)
    models = []
    for source in (database, folder / "all.parquet", folder / "all.reports"):
        said = invoke("fit", protocol, source, "--out", folder / "model.json", "--force")
        assert "reports 600, and 0 refused" in said
        models.append(LocalModel.load(folder / "model.json").weights)
    np.testing.assert_array_equal(models[1], models[0])
    np.testing.assert_array_equal(models[2], models[0])
    receipt = json.loads((folder / "model.receipt.json").read_text())
    assert (receipt["epsilon"], receipt["delta"]) == (8.0, 0.0)
    said = invoke("predict", folder / "model.json", people, "--score", "ill")
    assert float(re.search(r"accuracy (\S+) on 600 rows. NOT PRIVATE", said)[1]) > 0.85
    predicted = invoke("predict", folder / "model.json", people).split()
    assert predicted[0] == "prediction"
    assert len(predicted) == N + 1
    assert set(predicted[1:]) == {"no", "yes"}


def test_exports_hold_no_token_and_no_order(tmp_path):
    tokens = [new_token() for _ in range(50)]
    database, path = tmp_path / "reports.db", tmp_path / "protocol.json"
    path.write_text(PROTOCOL.to_json())
    with ReportStore(str(database), PROTOCOL, create=True) as store:
        store.insert([Row(token_hash(token), report(token, n % 5)) for n, token in enumerate(tokens)])
    invoke("export", path, "--database", database, "--out", tmp_path / "all.parquet")
    invoke("export", path, "--database", database, "--out", tmp_path / "all.reports")
    table = pq.read_table(tmp_path / "all.parquet")
    assert table.column_names == ["seed", "index"]
    assert table.schema.metadata[b"sottovoce.protocol"] == PROTOCOL.to_json().encode()
    seeds, indices, _ = parse_many((tmp_path / "all.reports").read_bytes(), PROTOCOL)
    assert table["seed"].to_pylist() == seeds.tolist()
    assert table["index"].to_pylist() == indices.tolist()
    by_hash = sorted(range(50), key=lambda n: token_hash(tokens[n]))
    assert indices.tolist() == [n % 5 for n in by_hash]
    content = (tmp_path / "all.parquet").read_bytes()
    assert not any(token_hash(token) in content or token.encode() in content for token in tokens)


def test_rows_of_numbers(tmp_path):
    path, people = tmp_path / "protocol.json", tmp_path / "people.csv"
    options = ("--n-features", 2, "--label-bounds", "0,10", "--epsilon", 4, "--n-expected", 10_000_000)
    invoke("protocol", *options, "--scale", 5, "--out", path)
    described = Protocol.from_json(path.read_text())
    assert (described.task, described.label_bounds, described.scale) == ("regression", (0.0, 10.0), 5.0)
    people.write_text("a,y,b\n1,9.5,2\n-1,0,3\n")
    invoke("randomize", path, people, "--label", "y", "--out", tmp_path / "few.reports")
    content = (tmp_path / "few.reports").read_bytes()
    assert len(parse_many(content, described)[0]) == 2
    assert parse_many(content, described)[2] == {}


def test_wrong_use(folder):
    protocol, people = folder / "protocol.json", folder / "people.csv"
    made = ("--epsilon", 2, "--n-expected", 100, "--out", protocol)
    assert "--schema is missing" in invoke("protocol", *made, code=2)
    assert "--scale is for --n-features" in invoke(
        "protocol", *made, "--schema", folder / "schema.toml", "--scale", 2, code=2
    )
    assert "epsilon must be" in invoke("protocol", "--n-features", 2, "--epsilon", "nan", *made[2:], code=2)
    assert not protocol.exists()
    invoke("protocol", *made, "--schema", folder / "schema.toml")
    assert "the file exists" in invoke("protocol", *made, "--schema", folder / "schema.toml", code=2)
    bins = SCHEMA.replace("bounds = [20, 80]", "bounds = [20, 80]\nbins = [40]")
    (folder / "bins.toml").write_text(bins)
    said = invoke("protocol", *made, "--force", "--schema", folder / "bins.toml", code=2)
    assert "column 'age': devices know neither bins" in said

    make = ("randomize", protocol, people)
    assert "there is no column 'sick'" in invoke(*make, "--label", "sick", "--out", folder / "x.reports", code=2)
    assert "--tokens is missing" in invoke(*make, "--label", "ill", "--out", folder / "x.jsonl", code=2)
    assert "in .parquet or .reports to fit" in invoke(*make, "--label", "ill", "--out", folder / "x.csv", code=2)
    asked = ("--label", "ill", "--out", folder / "x.reports")
    assert "more than max_epsilon" in invoke(*make, *asked, "--max-epsilon", 1, code=2)
    (folder / "few").write_text(f"{new_token()}\n")
    assert "needs 600 different tokens; got 1" in invoke(*make, *asked, "--tokens", folder / "few", code=2)
    people.write_text("age,work,ill\n30,desk,no\nold,desk,no\n")
    assert "line 3, column 'age': 'old' is not a number" in invoke(*make, *asked, code=2)
    people.write_text("age,work,ill\n30,desk\n")
    assert "line 2: 2 cells instead of 3" in invoke(*make, *asked, code=2)
    assert not (folder / "x.reports").exists()

    fit = ("fit", protocol)
    out = ("--out", folder / "model.json")
    assert "no such file" in invoke(*fit, f"sqlite:///{folder / 'none.db'}", *out, code=2)
    assert "cannot read the reports" in invoke(*fit, folder / "none.parquet", *out, code=2)
    assert "ends in .parquet or .reports" in invoke(*fit, people, *out, code=2)
    (folder / "empty.reports").write_bytes(b"")
    for option, why in {"--degree": "or auto; got", "--alpha": "must be a valid number; got"}.items():
        assert why in invoke(*fit, folder / "empty.reports", *out, option, "hinges", code=2)
    assert "there are no reports" in invoke(*fit, folder / "empty.reports", *out, code=2)
    (folder / "text.parquet").write_text("text")
    assert "text.parquet: cannot read" in invoke(*fit, folder / "text.parquet", *out, code=2)
    assert "this is a file to read from" in invoke(*fit, folder / "empty.reports", "--out", protocol, "--force", code=2)
    people.write_text("age,work,ill\n" + "30,desk,no\n40,field,yes\n" * 20)
    invoke(*make, "--label", "ill", "--out", folder / "x.parquet")
    said = invoke(*fit, folder / "x.parquet", folder / "x.parquet", *out, code=2)
    assert "40 of the 80 reports have the seed of another one" in said
    other = folder / "other.json"
    other.write_text(PROTOCOL.to_json())
    assert "not reports of protocol" in invoke("fit", other, folder / "x.parquet", *out, code=2)
    assert not (folder / "model.json").exists()
    assert "cannot read the protocol" in invoke("fit", folder / "none.json", folder / "x.parquet", *out, code=2)


def test_a_collector_that_cannot_start_says_why(tmp_path):
    path = tmp_path / "protocol.json"
    path.write_text(PROTOCOL.to_json())
    collect = ("collect", path, "--port", 0)
    assert "must be a SQLite file" in invoke(*collect, "--database", "mysql://u:secret@h/x", code=2)
    assert "cannot make the file" in invoke(*collect, "--database", tmp_path / "none" / "x.db", code=2)
    assert "there is no such folder" in invoke(
        *collect, "--database", tmp_path / "x.db", "--static", tmp_path / "none", code=2
    )
    assert "64 hexadecimal digits" in invoke(*collect, "--database", tmp_path / "x.db", "--token-key", path, code=2)
    assert "--max-rate must be" in invoke(*collect, "--database", tmp_path / "x.db", "--max-rate", 0, code=2)
    taken = ("--host", "256.1.1.1")
    assert "host 256.1.1.1" in invoke(*collect, "--database", tmp_path / "x.db", *taken, code=2)
