"""Write one small file of every format, as this version of sottovoce writes it, and what it must say when it is read.

    python tests/data/make_formats.py tests/data/formats/VERSION

``tests/unit/test_formats.py`` reads every such folder. A folder is added when a format changes; none is written again.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np

import sottovoce as sv
from sottovoce import report, vertical
from sottovoce.local import Aggregator, NumericFeature, Protocol, Randomizer
from sottovoce.local.collector.storage import ReportStore, Row
from sottovoce.local.server.exports import write_reports
from sottovoce.tables import Schema
from sottovoce.vertical.estimators.receipts import result_texts

BUDGET = {"epsilon": 1.0, "delta": 1e-4, "random_state": 0}
ROWS = [[0.1, 0.4], [-0.3, 0.2], [0.5, -0.5]]


def main(folder: Path) -> None:
    """Write the files and ``expected.json``."""
    warnings.simplefilter("ignore")
    folder.mkdir(parents=True)
    chance = np.random.default_rng(0)
    X = chance.uniform(-0.5, 0.5, (200, 2))
    words = np.where(X[:, 0] > 0, "ill", "well")
    schema = Schema.from_columns({"a": (-0.5, 0.5), "b": (-0.5, 0.5), "state": ["well", "ill"]}, target="state")
    (folder / "schema.toml").write_text(schema.to_toml(), encoding="utf-8")
    ball = {"data_bound": 0.5, "radius": 1.0, "n_steps": 3}
    models = {
        "logistic": sv.DPLogisticRegression(**BUDGET, data_norm=1.0, classes=["well", "ill"]).fit(X, words),
        "svc": sv.DPLinearSVC(**BUDGET, data_norm=1.0, classes=["well", "ill"]).fit(X, words),
        "sparse": sv.DPSparseLogisticRegression(**BUDGET, **ball, classes=["well", "ill"]).fit(X, words),
        "ridge": sv.DPRidge(**BUDGET, data_norm=1.0, label_bounds=(-0.5, 0.5)).fit(X, X[:, 1]),
        "lasso": sv.DPLasso(**BUDGET, **ball, label_bounds=(-0.5, 0.5)).fit(X, X[:, 1]),
    }
    expected: dict[str, object] = {"rows": ROWS, "predictions": {}}
    for name, model in models.items():
        sv.save_model(model, folder / f"{name}.model.json", schema=schema if name == "logistic" else None)
        expected["predictions"][name] = model.predict(ROWS).tolist()
    receipt = models["logistic"].guarantee_
    report.make_key(folder / "officer.key")
    signed = report.sign_receipt(receipt, folder / "officer.key")
    (folder / "officer.key").unlink()
    (folder / "signed.receipt.json").write_text(signed.to_json(), encoding="utf-8")
    (folder / "receipt.html").write_text(report.receipt_page(receipt), encoding="utf-8")
    expected["receipt"] = [receipt.epsilon, receipt.delta, receipt.mechanism]
    evaluation = sv.evaluate(models["logistic"], X, words, epsilon=1.0, delta=1e-5, random_state=1)
    (folder / "evaluation.json").write_text(evaluation.to_json(), encoding="utf-8")
    expected["evaluation"] = [evaluation.accuracy, evaluation.auc]

    ledger = sv.Ledger(f"sqlite:///{folder / 'ledger.db'}")
    ledger.create("people", epsilon=3.0, delta=1e-3, allow_nonprivate=True)
    given = {"data_norm": 1.0, "classes": ["well", "ill"], "ledger": ledger, "dataset": "people"}
    sv.DPLogisticRegression(**BUDGET, **given).fit(X, words)
    expected["remaining"] = ledger.remaining("people", delta=1e-3)

    features = [NumericFeature("a", -0.5, 0.5), NumericFeature("b", -0.5, 0.5)]
    protocol = Protocol(features=features, epsilon=8.0, classes=("well", "ill"))
    (folder / "protocol.json").write_text(protocol.to_json(), encoding="utf-8")
    device, aggregator = Randomizer(protocol), Aggregator(protocol)
    reports = [device.report({"a": a, "b": b}, word) for (a, b), word in zip(X.tolist(), words.tolist(), strict=True)]
    aggregator.add(reports)
    aggregator.save(folder / "aggregator.sums")
    for ending in ("reports", "parquet"):
        write_reports(folder / f"people.{ending}", [b"".join(reports)], protocol)
    local = aggregator.fit()
    local.save(folder / "local.model.json")
    records = [{"a": a, "b": b} for a, b in ROWS]
    expected["predictions"]["local"] = local.predict(records).tolist()
    with ReportStore(str(folder / "collector.db"), protocol, create=True) as store:
        store.insert([Row(bytes([k]) * 32, each) for k, each in enumerate(reports[:20])])

    facts = {"data_norm": {"party1": 0.5, "party2": 0.5}, "data_bound": {"party1": 0.5, "party2": 0.5}}
    parties = vertical.split_columns(X, [1, 1], **facts)
    both = vertical.VerticalLogisticRegression(**BUDGET, classes=[0, 1]).fit(parties, (X[:, 0] > 0).astype(int))
    for name, text in result_texts(both, {"party1": ["a"], "party2": ["b"]}).items():
        if not name.endswith("receipt.json") and name != "guarantee.json":
            (folder / f"vertical.{name}").write_text(text, encoding="utf-8")
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
