"""A first notebook on three raw tables, from a file to a signed receipt, with no number chosen by hand but epsilon.

    python -m benchmarks.central.first_hour [--quick] [--docs]

Twenty-five cells, the same for each table, run one after the other as a notebook does: an error in one of them ends the
script. Columns are encoded by the draft of a schema of the whole file, whose lines a person would confirm; a pipeline
of that, a private scaler and the default model is trained at epsilon 1. Beside it the larger class, scikit-learn on the
same columns without privacy, and, where its environment is made (`benchmarks.peers`), diffprivlib with the bounds that
it reads from the data for itself. Accuracy and AUC of a held-out quarter, medians over splits.
"""

import bz2
import os
import subprocess
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp
from matplotlib import pyplot as plt

import sottovoce as sv
from benchmarks.common import data_folder
from benchmarks.driver import benchmark
from benchmarks.peers.libraries import at_hand, interpreter

ADULT = (
    "age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,race,sex,capital-gain,"
    "capital-loss,hours-per-week,native-country,income"
)
TABLES = {"bank": ("bank-full.csv", ";", "y"), "credit": ("credit_default.csv", ",", "Y"),
          "adult": ("adult.data", ",", "income")}  # fmt: skip
CELLS = """
import pandas as pd

from sklearn.linear_model import LogisticRegression

from sklearn.metrics import roc_auc_score

from sklearn.model_selection import train_test_split

import sottovoce as sv

from sottovoce.report import receipt_page, sign_receipt, verify_receipt

from sottovoce.tables import Layout, Schema, SchemaEncoder, draft_schema, read_table

table = pd.read_csv(file, sep=delimiter)

train, test = train_test_split(table, random_state=seed)
X, y, X_test, y_test = train.drop(columns=target), train[target], test.drop(columns=target), test[target]

draft = draft_schema(read_table(file, layout=Layout(delimiter=delimiter)), target=target)

_ = (folder / "people.toml").write_text(draft.replace("confirmed = false", "confirmed = true"))

schema = Schema.from_toml(folder / "people.toml")

encoder = SchemaEncoder(schema).fit(train)

forecast = sv.forecast(
    sv.DPLogisticRegression(epsilon=1.0, delta=1e-6), len(train), len(encoder.get_feature_names_out())
)

ledger = sv.Ledger(f"sqlite:///{folder}/ledger.db")
ledger.create("people", epsilon=2.0, delta=1e-5)

steps = [("encode", SchemaEncoder(schema)), ("scale", sv.DPScaler())]
model = sv.DPLogisticRegression(classes=list(schema.classes))

pipeline = sv.DPPipeline([*steps, ("model", model)], epsilon=1.0, delta=1e-6, ledger=ledger, dataset="people")

pipeline.fit(X, y)

accuracy = pipeline.score(X_test, y_test)

auc = roc_auc_score(y_test == pipeline.classes_[1], pipeline.predict_proba(X_test)[:, 1])

plain = LogisticRegression(max_iter=1000).fit(encoder.transform(train), y)

found = sv.evaluate(pipeline, X_test, y_test, epsilon=0.5, ledger=ledger, dataset="people")

sv.save_model(pipeline, folder / "model.json")

verified = verify_receipt(folder / "model.json").passed

signed = sign_receipt(pipeline.guarantee_, key)
page = receipt_page(signed)
""".strip().split("\n\n")
RIVAL = """
import sys, warnings; warnings.simplefilter("ignore")
import numpy as np
from diffprivlib.models import LogisticRegression, StandardScaler
d = np.load(sys.argv[1]); s = StandardScaler(epsilon=.5).fit(d["X"])
m = LogisticRegression(epsilon=.5, max_iter=1000).fit(s.transform(d["X"]), d["y"])
np.save(sys.argv[1], m.decision_function(s.transform(d["T"])))
"""


def rival(told, folder):
    """Return accuracy and AUC of diffprivlib on the same columns; None where it is not at hand."""
    if "diffprivlib" not in at_hand():
        return None
    file, second, target = folder / "rows.npz", told["pipeline"].classes_[1], told["target"]
    X, T = (sp.csr_array(told["encoder"].transform(told[part])).toarray() for part in ("train", "test"))
    np.savez(file, X=X, T=T, y=(told["train"][target] == second).to_numpy(int))
    subprocess.run([interpreter("diffprivlib"), "-c", RIVAL, file], check=True, env={"PATH": os.environ["PATH"]})
    scores, y = np.load(f"{file}.npy"), (told["test"][target] == second).to_numpy()
    return float(np.mean((scores > 0) == y)), told["roc_auc_score"](y, scores)


def cells(name, seed, folder):
    """Run the cells; return what they leave."""
    source, delimiter, target = TABLES[name]
    text = bz2.decompress((data_folder() / f"{source}.bz2").read_bytes()).decode().replace(", ", ",")
    file, key = folder / "raw.csv", folder / "key.pem"
    file.write_text(f"{ADULT}\n{text}" if name == "adult" else text)
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True)
    key.chmod(0o600)
    told = {"file": file, "delimiter": delimiter, "target": target, "folder": folder, "seed": seed, "key": key}
    for cell in CELLS:
        exec(cell, told)  # as a notebook does
    return told


def notebook(name, seed, folder):
    """Return the row of a table."""
    told = cells(name, seed, folder)
    target = told["target"]
    assert told["verified"] and told["signed"].signature
    rows, labels = told["encoder"].transform(told["test"]), told["test"][target]
    plain = told["plain"].score(rows, labels), told["roc_auc_score"](labels, told["plain"].decision_function(rows))
    larger = labels.value_counts(normalize=True).max()
    other = rival(told, folder) or (None, None)
    return name, len(told["train"]), rows.shape[1], larger, *(told["accuracy"], told["auc"]), *plain, *other


def census():
    """Draw accuracy on held-out people against epsilon: UCI Adult, a row a person."""
    with tempfile.TemporaryDirectory() as folder:
        told = cells("adult", 0, Path(folder))
    train, test = (told["encoder"].transform(told[part]).toarray() for part in ("train", "test"))
    y, seen = told["train"][told["target"]], told["test"][told["target"]]
    scores = {}
    for epsilon in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0):
        steps = [("scale", sv.DPScaler()), ("model", sv.DPLogisticRegression(classes=list(told["schema"].classes)))]
        fits = [sv.DPPipeline(steps, epsilon=epsilon, delta=1e-6).fit(train, y) for _ in range(10)]
        scores[epsilon] = [one.score(test, seen) for one in fits]
    figure, axes = plt.subplots(figsize=(7.5, 4.2), dpi=140, layout="constrained")
    means = np.array([np.mean(one) for one in scores.values()])
    spread = [means - [min(one) for one in scores.values()], [max(one) for one in scores.values()] - means]
    axes.errorbar(list(scores), means, yerr=spread, fmt="o-", capsize=4, label="with privacy, nothing tuned")
    for height, colour, text in (
        (told["plain"].score(told["encoder"].transform(told["test"]), seen), "black", "without privacy (scikit-learn)"),
        (seen.value_counts(normalize=True).max(), "grey", "always the larger class"),
    ):
        axes.axhline(height, color=colour, linestyle="--", linewidth=1)
        axes.annotate(text, (0.3, height), (0, 4), ("axes fraction", "data"), "offset points", color=colour)
    axes.set_xscale("log")
    axes.set_xticks(list(scores), [f"{epsilon:g}" for epsilon in scores])
    axes.minorticks_off()
    axes.set_xlabel("epsilon (further left: more private)")
    axes.set_ylabel("accuracy on held-out people")
    axes.set_title("Who earns more than 50,000 dollars? Mean of 10 runs; bars: lowest and highest", fontsize=10)
    axes.margins(y=0.12)
    axes.legend(loc="center right", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


@benchmark(page="guide/pipelines.md", seeds=(3, 1), only=("bank,credit,adult", "bank"))
def main(run) -> None:
    warnings.simplefilter("ignore")
    rows = []
    for name in run.only.split(","):
        found = []
        for seed in range(run.seeds):
            with tempfile.TemporaryDirectory() as folder:
                found.append(notebook(name, seed, Path(folder)))
        frame = pd.DataFrame([one[3:] for one in found], dtype=float)
        rows.append((*found[0][:3], *(None if np.isnan(value) else value for value in frame.median())))
    figures = ("larger class", "accuracy", "AUC", "scikit-learn", "its AUC", "diffprivlib", "AUC of it")
    head = ("table", "rows|,", "columns", *(f"{figure}|.3f" for figure in figures))
    run.table(f"{len(CELLS)} cells, epsilon = 1", head, rows)
    run.picture(census, "census.png")
