"""What earlier versions wrote is read, and says the same; what later versions may write is refused with a remedy."""

import hashlib
import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.exceptions import SottovoceError
from sottovoce.local import Aggregator, LocalModel, Protocol
from sottovoce.local.collector.storage import ReportStore
from sottovoce.local.server.exports import read_reports
from sottovoce.report import read_receipt
from sottovoce.report.signing import checked_signature
from sottovoce.tables import Schema
from sottovoce.vertical.estimators.receipts import scorer_from

SAMPLES = Path(__file__).parents[1] / "data" / "formats"
VERSIONS = sorted(folder.name for folder in SAMPLES.iterdir())


@pytest.fixture(params=VERSIONS)
def samples(request, tmp_path):
    """A copy: opening a database may write to it."""
    return Path(shutil.copytree(SAMPLES / request.param, tmp_path / "samples"))


@pytest.fixture
def expected(samples):
    return json.loads((samples / "expected.json").read_text(encoding="utf-8"))


def test_models(samples, expected):
    for name in ("logistic", "svc", "sparse", "ridge", "lasso"):
        model, schema = sv.load_model(samples / f"{name}.model.json")
        found, wanted = model.predict(expected["rows"]), expected["predictions"][name]
        assert found.tolist() == wanted if found.dtype.kind == "U" else np.allclose(found, wanted, rtol=1e-12, atol=0)
        assert (schema is not None) == (name == "logistic")
        assert model.guarantee_.epsilon == 1.0


def test_receipts(samples, expected):
    for name in ("receipt.html", "signed.receipt.json"):
        receipt = read_receipt(samples / name)
        assert [receipt.epsilon, receipt.delta, receipt.mechanism] == expected["receipt"]
    text = (samples / "signed.receipt.json").read_text(encoding="utf-8")
    assert sv.Guarantee.from_json(text).to_json() == text
    assert checked_signature(sv.Guarantee.from_json(text), samples / "officer.key.pub").passed


def test_an_evaluation(samples, expected):
    found = sv.Evaluation.from_json(samples / "evaluation.json")
    assert np.allclose([found.accuracy, found.auc], expected["evaluation"], rtol=1e-12, atol=0)


def test_a_schema(samples):
    text = (samples / "schema.toml").read_text(encoding="utf-8")
    schema = Schema.from_toml(samples / "schema.toml")
    assert schema.target == "state"
    assert schema.to_toml() == text


def test_a_ledger(samples, expected):
    ledger = sv.Ledger(f"sqlite:///{samples / 'ledger.db'}")
    assert ledger.verify().ok
    assert ledger.remaining("people", delta=1e-3) == pytest.approx(expected["remaining"], rel=1e-12)
    ledger.create("others", epsilon=1.0, delta=1e-5)  # and is written on
    assert ledger.verify().ok


def test_reports_and_what_is_made_of_them(samples, expected):
    protocol = Protocol.from_json((samples / "protocol.json").read_text(encoding="utf-8"))
    texts = [b"".join(read_reports(samples / f"people.{ending}", protocol)) for ending in ("reports", "parquet")]
    assert texts[0] == texts[1]
    assert len(texts[0]) == 200 * 22
    again = Aggregator(protocol)
    again.add(texts[0])
    sums = Aggregator.load(samples / "aggregator.sums")
    assert np.array_equal(sums.fit().weights, again.fit().weights)
    model = LocalModel.load(samples / "local.model.json")
    records = [dict(zip("ab", row, strict=True)) for row in expected["rows"]]
    assert model.predict(records).tolist() == expected["predictions"]["local"]
    with ReportStore(str(samples / "collector.db"), protocol) as store:
        assert store.count() == 20
        assert {each in texts[0] for each in store.reports()} == {True}


def test_a_vertical_model(samples):
    content = json.loads((samples / "vertical.coordinator.json").read_text(encoding="utf-8"))
    assert scorer_from(content).needed == ("party1",)
    parts = [json.loads((samples / f"vertical.party{k}.part.json").read_text(encoding="utf-8")) for k in (1, 2)]
    assert [(part["format"], part["version"], list(part["coefficients"])) for part in parts] == [
        ("sottovoce-vertical-part", 1, ["a"]),
        ("sottovoce-vertical-part", 1, ["b"]),
    ]


def text_of(path):
    return path.read_text(encoding="utf-8")


def newer(path):
    """Write a version that is yet to come into a file, as its kind has it."""
    if path.suffix == ".db":
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE collector_schema SET version = 99")
        connection.close()
    elif path.suffix == ".sums":
        content = path.read_bytes()[:-32].replace(b'"version": 1', b'"version": 9')
        path.write_bytes(content + hashlib.sha256(content).digest())
    elif path.suffix == ".toml":
        path.write_text(text_of(path).replace("version = 1", "version = 99"), encoding="utf-8")
    else:
        content = {**json.loads(text_of(path)), "version": 99}
        path.write_text(json.dumps(content, sort_keys=True, separators=(",", ":")), encoding="utf-8")
    return path


READERS = {
    "logistic.model.json": sv.load_model,
    "signed.receipt.json": read_receipt,
    "evaluation.json": sv.Evaluation.from_json,
    "local.model.json": LocalModel.load,
    "protocol.json": lambda path: Protocol.from_json(text_of(path)),
    "vertical.coordinator.json": lambda path: scorer_from(json.loads(text_of(path))),
    "schema.toml": Schema.from_toml,
    "aggregator.sums": Aggregator.load,
    "collector.db": lambda path: ReportStore(
        str(path), Protocol.from_json(text_of(path.with_name("protocol.json")))
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_a_later_version_is_refused_with_a_remedy(samples, name):
    path = newer(samples / name)
    with pytest.raises(SottovoceError, match=r"version 99?\b.*([Uu]pdate|[Uu]se the version)"):
        READERS[name](path)
