"""The main job, end to end: private models of real data, with and without privacy, and their receipts in ``demo/``.

Run with ``make demo``. The first part uses scikit-learn's handwritten digits, which ship with it. The second trains on
the raw UCI Adult census through the command line, where the environment variable SOTTOVOCE_DATA names a folder with
``adult.data`` and ``adult.test`` (or the same with .bz2).
"""

import math
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import sottovoce as sv
from sottovoce.estimators.persistence import save_model

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from support.data import data_folder, why_without

OUT = Path("demo")
CONSOLE = Console(width=118)


def digits() -> None:
    """Ten classes, 1,347 training images of 8 x 8 pixels with values 0 to 16: a small table, so a hard one."""
    CONSOLE.rule("Handwritten digits (ships with scikit-learn), Python")
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=0)
    public = {
        "data_norm": 64.0,  # half of the longest that 64 pixels of 0..16 can be: longer rows are shortened to it
        "classes": range(10),
    }
    table = Table("epsilon", "delta", "test accuracy")
    for epsilon in (1.0, 4.0, math.inf):  # the second one warns: each receipt is about one fit, and these add up
        model = sv.DPLogisticRegression(epsilon=epsilon, delta=1e-4, alpha=1e-4, **public).fit(X, y)
        table.add_row(f"{epsilon:g}", "1e-4", f"{model.score(X_test, y_test):.3f}")
        if epsilon == 4.0:
            kept = model
    CONSOLE.print(table)
    save_model(kept, OUT / "digits.json")
    (OUT / "digits.receipt.json").write_text(kept.guarantee_.to_json(), encoding="utf-8")
    receipt = Table("receipt of epsilon = 4", "", show_lines=True)
    for name, text in kept.guarantee_.rows():
        receipt.add_row(name, text)
    CONSOLE.print(receipt)


def adult(folder: Path) -> None:
    """32,561 people, 14 raw columns, income above 50K; the public facts are in examples/adult.toml."""
    CONSOLE.rule("UCI Adult census, raw files, command line")
    train, test = (_either(folder, name) for name in ("adult.data", "adult.test"))
    if train is None or test is None:
        CONSOLE.print(f"no adult.data and adult.test in SOTTOVOCE_DATA={folder}: skipped")
        return
    schema = Path(__file__).parent / "adult.toml"
    for epsilon, name in (("inf", "adult-not-private"), ("1", "adult")):
        model = OUT / f"{name}.json"
        asked = ("--model", "svm", "--epsilon", epsilon, "--delta", "1e-5")
        told = () if epsilon == "1" else ("--quiet",)  # one receipt on the screen is enough
        _run("fit", train, "--schema", schema, *asked, "--out", model, "--force", *told)
        _run("predict", model, test, "--score", "--out", OUT / f"{name}.predictions.csv", "--force")


def _either(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.bz2") if path.exists()), None)


def _run(*arguments: object) -> None:
    words = [str(word) for word in arguments]
    CONSOLE.print(f"$ sottovoce {' '.join(words)}", style="bold", soft_wrap=True)
    subprocess.run([sys.executable, "-m", "sottovoce", *words], check=True)


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    digits()
    data = data_folder()
    if data is None:
        CONSOLE.print(f"{why_without('adult.data and adult.test')}: the Adult part is skipped")
    else:
        adult(data)
    CONSOLE.print(f"models and receipts: {', '.join(str(path) for path in sorted(OUT.glob('*.json')))}")
