"""Everything that reads bytes from outside, with good examples and a way to change them."""

import base64
import hashlib
import json
import random
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sottovoce as sv
from sottovoce._numerics import Vector
from sottovoce.estimators.persistence import load_model, save_model
from sottovoce.exceptions import SottovoceError
from sottovoce.ledger import verify_export
from sottovoce.local import Aggregator, LocalModel, NumericFeature, Protocol, Randomizer
from sottovoce.local.server.exports import read_reports, write_reports
from sottovoce.local.wire import parse, parse_many
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.tables import ParquetTable, Schema, draft_schema, read_table
from sottovoce.vertical.wire import Count
from support.collector import new_token
from support.collector import report as device_report
from support.mutations import Mutate, change_bytes, change_json, change_json_lines, change_text
from support.party import decode, kinds

_FOLDER = tempfile.TemporaryDirectory(prefix="sottovoce-fuzz-")
_RNG = np.random.default_rng(0)
X = _RNG.uniform(-0.5, 0.5, (40, 3))
T = np.clip(X[:, 0], -1.0, 1.0)
PROTOCOL = Protocol(epsilon=2.0, n_features=3)


@dataclass(frozen=True)
class Reader:
    """One reader.

    Attributes
    ----------
    examples : callable
        Returns good inputs.
    change : callable
        From a generator and a good input to a nearly good one.
    read : callable
        Reads bytes; raises `SottovoceError`, or what ``documented`` lists, or nothing.
    """

    examples: Callable[[], list[bytes]]
    change: Mutate
    read: Callable[[bytes], object]
    documented: tuple[type[Exception], ...] = ()

    def accepts(self, raw: bytes) -> bool:
        """Read; tell whether it was taken. Anything but a documented error passes through: it is a bug."""
        with warnings.catch_warnings(action="ignore"):
            try:
                self.read(raw)
            except (SottovoceError, *self.documented):
                return False
        return True


def from_file(read: Callable[[Path], object], suffix: str) -> Callable[[bytes], object]:
    """Return a reader of bytes from one of files."""
    path = Path(_FOLDER.name) / f"input{suffix}"

    def reads(raw: bytes) -> object:
        path.write_bytes(raw)
        return read(path)

    return reads


def _text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda raw: read(raw.decode("utf-8", "surrogateescape"))


@cache
def _models() -> list[bytes]:
    public: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "random_state": 0}
    made = [
        sv.DPRidge(**public, data_norm=1.0, label_bounds=(-1, 1)).fit(X, T),
        sv.DPLogisticRegression(**public, data_norm=1.0, classes=["no", "yes"]).fit(X, np.where(T > 0, "yes", "no")),
        sv.DPLasso(**public, data_bound=0.5, radius=1.0, n_steps=2, label_bounds=(-1, 1)).fit(X, T),
    ]
    path = Path(_FOLDER.name) / "made.json"
    out = []
    for model in made:
        save_model(model, path)
        out.append(path.read_bytes())
    return out


@cache
def _receipts() -> list[bytes]:
    return [json.dumps(json.loads(model)["guarantee"]).encode() for model in _models()]


SCHEMA = b"""format = "sottovoce-schema"
version = 1
target = "income"
confirmed = true

[table]
missing = ["?", ""]
comment = "#"

[columns.age]
type = "numeric"
bounds = [17, 90]
bins = [25, 40, 65]

[columns.gain]
type = "numeric"
bounds = [0, 99999]
scale = "log"

[columns.work]
type = "categorical"
categories = ["private", "state"]
unknown = "ignore"

[columns.id]
type = "ignore"

[columns.income]
type = "categorical"
categories = ["<=50K", ">50K"]
aliases = {">50K." = ">50K"}
"""
CSV = b"age,gain,work,id,income\n30,0,private,1,<=50K\n41,1e3,state,2,>50K.\n89,,other,3,<=50K\n17,5,?,4,>50K\n"


def _read_csv(path: Path) -> None:
    schema_path = Path(_FOLDER.name) / "schema.toml"
    if not schema_path.exists():
        schema_path.write_bytes(SCHEMA)
    table = read_table(path)
    draft_schema(table)
    schema = Schema.from_toml(schema_path)
    schema.features(table)
    schema.labels(table)


@cache
def _parquet() -> list[bytes]:
    out = []
    for options in ({}, {"compression": "none"}, {"row_group_size": 9, "use_dictionary": False}):
        columns: dict[str, Any] = {f"x{k}": X[:, k] for k in range(3)}
        sink = BytesIO()
        pq.write_table(pa.table({**columns, "y": np.where(T > 0, "yes", "no")}), sink, **options)
        out.append(sink.getvalue())
    return out


def _read_parquet(path: Path) -> None:
    read_table(path)
    table = ParquetTable(path, target="y")
    table.labels()
    for _ in table.finite_blocks():
        pass


@cache
def _messages() -> list[bytes]:
    values = {int: 3, float: 0.5, str: "größe", Vector: [1.5, -2.0, 0.0], Count: 300, bytes: b"\0\x80\xff"}
    out = []
    for kind in kinds():
        hints = get_type_hints(kind, include_extras=True)
        out.append(kind(*(values[hints[field.name]] for field in fields(kind))).encode())
    return out


@cache
def _protocols() -> list[bytes]:
    made = [
        PROTOCOL,
        Protocol(epsilon=1.0, features=[NumericFeature("age", 0, 90)], classes=("no", "yes")),
        Protocol(epsilon=1.0, features=[NumericFeature("a", 0, 1)], task="regression", label_bounds=(0.0, 1.0)),
    ]
    return [protocol.to_json().encode() for protocol in made]


@cache
def _reports() -> list[bytes]:
    device = Randomizer(PROTOCOL)
    return [device.report(x, 1) for x in X[:5]]


def _read_report(raw: bytes) -> None:
    parse(raw, PROTOCOL)
    parse_many(raw, PROTOCOL)
    aggregator = Aggregator(PROTOCOL)
    aggregator.add(raw)
    aggregator.add([raw, raw])


@cache
def _report_files() -> list[bytes]:
    path = Path(_FOLDER.name) / "made.parquet"
    write_reports(path, _reports(), PROTOCOL)
    return [path.read_bytes()]


def _read_report_file(path: Path) -> None:
    for piece in read_reports(path, PROTOCOL):
        parse_many(piece, PROTOCOL)


@cache
def _aggregators() -> list[bytes]:
    made = Aggregator(PROTOCOL)
    made.add(_reports())
    made.add([b"bad"])
    return [made.to_bytes()]


def _change_aggregator(rng: random.Random, raw: bytes) -> bytes:
    """Change header or sums, mostly with the right length and checksum, which would hide what is behind them."""
    if rng.random() < 0.2:
        return change_bytes(rng, raw)
    size = int.from_bytes(raw[8:12], "little")
    header, rest = raw[12 : 12 + size], raw[12 + size : -32]
    if rng.random() < 0.6:
        header = change_json(rng, header)
    else:
        rest = change_bytes(rng, rest)
    content = raw[:8] + len(header).to_bytes(4, "little") + header + rest
    return content + hashlib.sha256(content).digest()


@cache
def _local_models() -> list[bytes]:
    made = Aggregator(PROTOCOL)
    device = Randomizer(PROTOCOL)
    made.add([device.report(x, 1 if y > 0 else -1) for x, y in zip(np.tile(X, (10, 1)), np.tile(T, 10), strict=True)])
    return [made.fit().to_json().encode()]


@cache
def _exports() -> list[bytes]:
    ledger = sv.Ledger(f"sqlite:///{_FOLDER.name}/budget.db")
    ledger.create("people", epsilon=10.0, delta=1e-5)
    for _ in range(2):
        sv.DPRidge(epsilon=1.0, delta=1e-6, data_norm=1.0, label_bounds=(-1, 1), ledger=ledger, dataset="people").fit(
            X, T
        )
    path = Path(_FOLDER.name) / "made.jsonl"
    ledger.export(path)
    return [path.read_bytes()]


def _forms() -> list[bytes]:
    def entry() -> dict[str, str]:
        token = new_token()
        return {"token": token, "report": base64.b64encode(device_report(token)).decode()}

    return [json.dumps(entry()).encode(), json.dumps([entry(), entry()]).encode()]


def _read_form(raw: bytes) -> None:
    from sottovoce.local.collector.intake import read_json, read_octets

    read_json(raw, max_batch=1000)
    read_octets(raw, ["a" * 16])


READERS: dict[str, Reader] = {
    "model": Reader(_models, change_json, from_file(load_model, ".json")),
    "receipt": Reader(_receipts, change_json, _text(Guarantee.from_json)),
    "schema": Reader(lambda: [SCHEMA], change_text, from_file(Schema.from_toml, ".toml")),
    "CSV": Reader(lambda: [CSV], change_text, from_file(_read_csv, ".csv")),
    "Parquet": Reader(_parquet, change_bytes, from_file(_read_parquet, ".parquet")),
    "vertical message": Reader(_messages, change_bytes, decode),
    "local protocol": Reader(_protocols, change_json, Protocol.from_json),
    "local report": Reader(_reports, change_bytes, _read_report),
    "report file": Reader(_report_files, change_bytes, from_file(_read_report_file, ".reports.parquet")),
    "aggregator": Reader(_aggregators, _change_aggregator, Aggregator.from_bytes),
    "local model": Reader(_local_models, change_json, from_file(LocalModel.load, ".local.json")),
    "collector body": Reader(_forms, change_json, _read_form),
    "ledger export": Reader(_exports, change_json_lines, from_file(verify_export, ".jsonl")),
}
