"""What privacy costs, on real data: private models at several epsilons beside one without privacy, in ``demo/``.

Run with ``make demo``; no data are needed. The table is that of the RAND health insurance experiment, 20,190 rows, as
it comes with the package statsmodels. *A row is one year of one person*, and the table does not say whose: so a year is
what the receipt protects. Somebody with five years in the table is protected with five times the epsilon, and a larger
delta.

Where the environment variable SOTTOVOCE_DATA names a folder with ``adult.data`` and ``adult.test`` (or the same with
.bz2), the raw UCI Adult census follows, through the command line.
"""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LogisticRegression

import sottovoce as sv
from sottovoce.report import privacy_curve, read_receipt, receipt_page
from sottovoce.tables import Schema

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from support.data import data_folder

OUT = Path("demo")
CONSOLE = Console(width=118)
EPSILONS, DELTA, RUNS = (0.03, 0.1, 0.3, 1.0, 3.0), 1e-6, 10
KEPT = 1.0  # the epsilon of the model that is kept
LEDGER = f"sqlite:///{OUT}/budget.db"  # adds up what all fits on these rows cost
BUDGET = {"epsilon": 20.0, "delta": 1e-4}  # of all of them; one is published

# From the rules of the experiment's plans and common knowledge, not from the table. Amounts are logarithms of dollars.
COLUMNS = {
    "coinsurance": (0, 4.7),
    "individual_deductible": ["no", "yes"],
    "most_out_of_pocket": (0, 9),
    "chronic_diseases": {"bounds": (0, 60), "bins": [5, 10, 15, 20]},  # an index
    "physical_limitation": (0, 1),
    "health": ["excellent", "good", "fair", "poor"],  # as they rate it themselves
    "incentive_paid": {"bounds": (0, 8), "bins": [1, 6]},
}
TARGET = "twice_at_the_doctor"
CARD = {
    "name": "Who sees a doctor twice a year",
    "intended_use": "A demonstration: what privacy costs on a real table.",
    "data_description": "RAND health insurance experiment, as it comes with statsmodels (public domain).",
    "data_subjects": "A row is one year of one person; whose is not known.",
    "evaluation": "Accuracy on held-out rows: demo/accuracy.png. That figure was not private.",
    "other_releases": "The demo trains 50 private models on the same rows, adds them up, and shows how good they are.",
}


# ------------------------------------------------------------------ the table


def people() -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return the columns, who saw a doctor twice or more in the year, and which rows are held out."""
    from statsmodels.datasets import randhie

    raw = randhie.load_pandas().data
    health = np.select([raw["hlthg"] == 1, raw["hlthf"] == 1, raw["hlthp"] == 1], ["good", "fair", "poor"], "excellent")
    table = pd.DataFrame(
        {
            "coinsurance": raw["lncoins"],
            "individual_deductible": np.where(raw["idp"] == 1, "yes", "no"),
            "most_out_of_pocket": raw["fmde"],
            "chronic_diseases": raw["disea"],
            "physical_limitation": raw["physlm"],
            "health": health,
            "incentive_paid": raw["lpi"],
        }
    )
    # rows that follow each other and differ in visits alone are years of one person: all of them are held out, or none
    same = raw.drop(columns="mdvis")
    someone = (same != same.shift()).any(axis=1).cumsum()
    held_out = someone.isin(np.random.default_rng(0).choice(someone.max(), someone.max() // 4, replace=False))
    return table, np.where(raw["mdvis"] >= 2, "yes", "no"), held_out.to_numpy()


# ------------------------------------------------------------------ accuracy against epsilon


def health_insurance() -> None:
    """Train with and without privacy, and leave a picture, a table, a model and its receipt."""
    CONSOLE.rule("Who sees a doctor twice a year? RAND health insurance experiment")
    table, y, held_out = people()
    schema = Schema.from_columns({**COLUMNS, TARGET: ["no", "yes"]}, target=TARGET)
    encoder = sv.SchemaEncoder(schema)  # public facts alone: nothing is computed from the rows
    X = encoder.fit_transform(table)
    train, test = (X[~held_out], y[~held_out]), (X[held_out], y[held_out])
    majority = max(np.mean(test[1] == label) for label in ("no", "yes"))
    plain = LogisticRegression().fit(*train).score(*test)
    CONSOLE.print(f"{len(train[1]):,} rows to learn from, {len(test[1]):,} held out; a row is a year of a person.")

    ledger = sv.Ledger(LEDGER)
    ledger.create("RAND", **BUDGET)
    scores, curves = {}, {}
    for epsilon in EPSILONS:
        models = [private_model(epsilon, encoder).fit(*train) for _ in range(RUNS)]
        scores[epsilon] = [model.score(*test) for model in models]
        curves[epsilon] = privacy_curve(models[0].guarantee_)
        if epsilon == KEPT:
            kept = models[0]
    shown = Table("epsilon", f"accuracy, mean of {RUNS} runs", "lowest and highest", "a guess who is in, right at most")
    for epsilon, found in scores.items():
        shown.add_row(
            f"{epsilon:g}",
            f"{np.mean(found):.3f}",
            f"{min(found):.3f} to {max(found):.3f}",
            f"{math.ceil(1000 * curves[epsilon].guess()) / 10:.1f} %",
        )
    shown.add_row("none: scikit-learn", f"{plain:.3f}", "", "100 %")
    shown.add_row("none: always the larger class", f"{majority:.3f}", "", "50 %")
    CONSOLE.print(shown)
    fits, (spent, delta) = RUNS * len(EPSILONS), ledger.spent("RAND")
    CONSOLE.print(
        f"The ledger: all {fits} fits on these rows cost epsilon = {spent:.3g} together, at delta = {delta:g}."
    )
    draw(scores, plain, majority)

    sv.save_model(kept, OUT / "model.json", schema=encoder.schema)
    receipt = read_receipt(OUT / "model.json")
    (OUT / "receipt.json").write_text(receipt.to_json(), encoding="utf-8")
    (OUT / "receipt.html").write_text(receipt_page(receipt, model_card=CARD), encoding="utf-8")


def private_model(epsilon: float, encoder: sv.SchemaEncoder) -> sv.DPLogisticRegression:
    """Return a model to fit."""
    return sv.DPLogisticRegression(
        epsilon=epsilon, delta=DELTA, classes=["no", "yes"], data_norm=encoder.data_norm, ledger=LEDGER, dataset="RAND"
    )


def draw(scores: dict[float, list[float]], plain: float, majority: float) -> None:
    """Write the picture ``accuracy.png``."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    means = np.array([np.mean(found) for found in scores.values()])
    spread = np.array([[means[i] - min(found), max(found) - means[i]] for i, found in enumerate(scores.values())]).T
    figure, axes = plt.subplots(figsize=(7.5, 4.2), dpi=140, layout="constrained")
    axes.errorbar(list(scores), means, yerr=spread, fmt="o-", capsize=4, color="tab:blue", label="with privacy")
    for height, colour, text in (
        (plain, "black", "without privacy (scikit-learn)"),
        (majority, "grey", "always the larger class"),
    ):
        axes.axhline(height, color=colour, linestyle="--", linewidth=1)
        axes.annotate(text, (0.01, height), (0, 4), ("axes fraction", "data"), "offset points", color=colour)
    axes.set_xscale("log")
    axes.set_xticks(list(scores), [f"{epsilon:g}" for epsilon in scores])
    axes.minorticks_off()
    axes.set_xlabel("epsilon (further left: more private)")
    axes.set_ylabel("accuracy on held-out rows")
    axes.set_title(f"Who sees a doctor twice a year? Mean of {RUNS} runs; bars: lowest and highest", fontsize=10)
    axes.margins(y=0.12)
    axes.legend(loc="center right", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(OUT / "accuracy.png")


# ------------------------------------------------------------------ the census, where it is


def adult(folder: Path) -> None:
    """32,561 people, 14 raw columns, income above 50K; the public facts are in examples/adult.toml."""
    train, test = (_either(folder, name) for name in ("adult.data", "adult.test"))
    if train is None or test is None:
        return
    CONSOLE.rule("UCI Adult census, raw files, command line")
    schema = Path(__file__).parent / "adult.toml"
    for epsilon, name in (("inf", "adult-not-private"), ("1", "adult")):
        model = OUT / f"{name}.json"
        asked = ("--model", "svm", "--epsilon", epsilon, "--delta", "1e-5")
        _run("fit", train, "--schema", schema, *asked, "--out", model, "--force", "--quiet")
        _run("predict", model, test, "--score", "--out", OUT / f"{name}.predictions.csv", "--force")


def _either(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.bz2") if path.exists()), None)


def _run(*arguments: object) -> None:
    words = [str(word) for word in arguments]
    CONSOLE.print(f"$ sottovoce {' '.join(words)}", style="bold", soft_wrap=True)
    subprocess.run([sys.executable, "-m", "sottovoce", *words], check=True)


LOOK = """
What to look at:
1. demo/accuracy.png   what privacy costs here: left more private, right more accurate, dashed what no privacy gives
2. demo/receipt.html   the receipt of one model (epsilon = 1): open it in a browser; it is made to be read and signed
3. sottovoce show demo/model.json                 the same in the terminal, with the coefficients
4. sottovoce receipt verify demo/receipt.html     accounts it again; `sottovoce proof newton` prints the proof
5. sottovoce ledger show --ledger sqlite:///demo/budget.db    what all fits on these rows cost together
6. The promise is for one row, a year of a person, and one model: years of one person add up, and so do fits.
(`sottovoce` is {} here.)"""


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    (OUT / "budget.db").unlink(missing_ok=True)
    health_insurance()
    data = data_folder()
    if data is not None:
        adult(data)
    CONSOLE.print(LOOK.format(Path(sys.executable).with_name("sottovoce")), highlight=False, markup=False)
