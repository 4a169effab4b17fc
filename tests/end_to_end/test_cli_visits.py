"""A new user in an empty folder: visits, several a person, from the draft of a schema to predictions."""

import contextlib
import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sottovoce as sv
from sottovoce.estimators.persistence import load_model
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from support.commands import fails, passes, run

N = 900
TRAIN = ("--model", "logistic", "--epsilon", "8", "--delta", "1e-6")


def visits() -> pd.DataFrame:
    """Visits to a clinic: patients come several times, some ages are not known, some visits have no name."""
    rng = np.random.default_rng(0)
    person = rng.integers(0, N // 3, N)
    age = rng.integers(18, 95, N // 3)[person].astype(float)
    reason = rng.choice(["check", "pain", "injury"], N)
    again = np.where(age + 30 * (reason == "injury") > 65, "yes", "no")
    age[rng.random(N) < 0.1] = np.nan
    patient = np.array([f"p{number}" for number in person], dtype=object)
    patient[:3] = ""
    return pd.DataFrame({"patient": patient, "age": age, "reason": reason, "again": again})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table, a schema that was drafted and confirmed, and a model of the rows."""
    path = tmp_path_factory.mktemp("visits")
    with contextlib.chdir(path):
        visits().to_csv("visits.csv", index=False)
        draft = passes("schema", "visits.csv", "--target", "again").stdout
        assert "max_rows_per_unit = 3" in draft
        said = draft.replace("confirmed = false", "").replace("# missing = ", "missing = ")
        Path("schema.toml").write_text(said)
        passes("fit", "visits.csv", "--schema", "schema.toml", *TRAIN, "--out", "model.json", "--quiet")
    return path


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all of these."""
    for file in made.iterdir():
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ----------------------------- rows


def test_held_out_rows_are_not_trained_on_and_read_like_the_table(folder: Path) -> None:
    visits().to_parquet("visits.parquet", index=False)
    found = []
    for table in ("visits.parquet", "visits.csv"):
        given = ("fit", table, "--schema", "schema.toml", *TRAIN, "--force", "--out", "m.json", "--random-state", "3")
        result = passes(*given, "--holdout", "0.25", "--holdout-out", "rest.csv")
        found.append(pd.read_csv("rest.csv"))
    rest = found[1]
    pd.testing.assert_frame_equal(*found)
    assert 0.15 * N < len(rest) < 0.35 * N
    receipt = json.loads(Path("m.receipt.json").read_text())
    assert receipt["parameters"]["n_samples"] == N - len(rest)
    assert re.search(r"set aside +0\.25 of the rows, by coins, in rest\.csv; never trained on", result.stdout)
    assert f"on {len(rest)} rows. NOT PRIVATE" in passes("predict", "m.json", "rest.csv", "--score").stderr
    asked, left = (list(csv.reader(Path(name).read_text().splitlines())) for name in ("visits.csv", "rest.csv"))
    assert asked[0] == left[0]
    assert set(map(tuple, left)) < set(map(tuple, asked))  # the cells as they are in the file


# ----------------------------- persons

PERSONS = ("--unit", "patient", "--max-rows-per-unit", "3", "--random-state", "7")


def weights(*arguments: object) -> list[float]:
    passes("fit", *arguments, *TRAIN, "--schema", "schema.toml", "--out", "m.json", "--force", "--quiet")
    return list(load_model("m.json")[0].coef_[0])


def test_a_person_with_all_their_visits_is_protected(folder: Path) -> None:
    result = passes("fit", "visits.csv", *TRAIN, "--schema", "schema.toml", *PERSONS, "--out", "m.json")
    unit = "one person: all rows of one group, of which at most 3 rows are used, labels included"
    assert f"(8, 1e-06)-differential privacy for {unit}" in " ".join(result.stdout.split())
    receipt = json.loads(Path("m.receipt.json").read_text())
    assert receipt["unit"] == unit
    assert 'unit = "patient"' in receipt["schema"]["text"]
    passes("receipt", "verify", "m.receipt.json")
    model, schema = load_model("m.json")
    assert (schema.unit, schema.max_rows_per_unit, model.max_rows_per_group) == ("patient", 3, 3)
    nameless = visits().drop(columns=["patient"])
    nameless.to_csv("nameless.csv", index=False)
    assert "on 900 rows" in passes("predict", "m.json", "nameless.csv", "--score").stderr  # whose they are is not asked
    says = 'target = "again"\nunit = "patient"\nmax_rows_per_unit = 3'
    Path("schema.toml").write_text(Path("schema.toml").read_text().replace('target = "again"', says))
    assert weights("visits.csv", "--random-state", "7") == model.coef_[0].tolist()  # the schema may say it


def test_a_plan_is_for_persons_too(folder: Path) -> None:
    facts = ("plan", "--model", "svm", "--epsilon", 1, "--delta", 1e-6, "--n-samples", 9, "--n-features", 5, "--json")
    planned = json.loads(passes(*facts, "--max-rows-per-unit", 3).stdout)
    model = sv.DPLinearSVC(epsilon=1, delta=1e-6, classes=[0, 1], max_rows_per_group=3)
    assert {**planned, **json.loads(json.dumps(model.plan(9, 5).summary()))} == planned


def test_visits_without_a_person_change_nothing(folder: Path) -> None:
    before = weights("visits.csv", *PERSONS)
    other = visits()
    other.loc[other["patient"] == "", ["age", "reason", "again"]] = [18, "injury", "no"]
    other.to_csv("other.csv", index=False)
    assert weights("other.csv", *PERSONS) == before
    other.replace({"patient": {"": None}}).to_parquet("other.parquet", index=False)
    assert weights("other.parquet", *PERSONS) == before


def test_whole_people_are_held_out_and_nothing_of_them_is_learned(folder: Path) -> None:
    given = ("visits.csv", *PERSONS, "--holdout", "0.5", "--holdout-out", "rest.csv", "--evaluate-epsilon", "9")
    before = weights(*given)
    rest, table = pd.read_csv("rest.csv"), visits()
    held = table["patient"].isin(rest["patient"])
    assert len(rest) == held.sum()
    assert 0.3 * N < len(rest) < 0.7 * N
    assert not rest["patient"].isna().any()
    judged = sv.Evaluation.from_json(Path("m.evaluation.json"))
    assert judged.guarantee_.unit.startswith("one person: all rows of one group, of which at most 3 rows are used")
    assert 0.3 * N < judged.n_rows < 0.7 * N
    receipt = json.loads(Path("m.receipt.json").read_text())
    assert receipt["parameters"]["n_samples"] == N  # how many rows the others have is secret
    table.loc[held, ["age", "reason"]] = [18, "injury"]
    table.to_csv("visits.csv", index=False)
    assert weights(*given) == before
    table.loc[~held & (table["patient"] != ""), "reason"] = "pain"
    table.to_csv("visits.csv", index=False)
    assert weights(*given) != before


def test_a_unit_of_another_kind_is_refused_before_anything_is_charged(folder: Path) -> None:
    sv.Ledger("sqlite:///budget.db").create("visits", epsilon=9.0, delta=1e-3, unit="person")
    visits().assign(patient=pd.Timestamp("2020-01-01")).to_parquet("visits.parquet", index=False)
    fails(
        "fit", "visits.parquet", *TRAIN, "--schema", "schema.toml", "--out", "m.json", *PERSONS,
        "--ledger", "sqlite:///budget.db", "--dataset", "visits",
        match=r"visits\.parquet, column 'patient': values of type timestamp.* do not say whose row it is",
    )  # fmt: skip
    assert sv.Ledger("sqlite:///budget.db").history("visits") == []


# ----------------------------- how good it is


def test_what_was_set_aside_says_how_good_the_model_is_with_noise(folder: Path) -> None:
    book = sv.Ledger("sqlite:///budget.db")
    book.create("visits", epsilon=12.0, delta=1e-3)
    given = ("fit", "visits.csv", "--schema", "schema.toml", *TRAIN, "--out", "m.json")
    aside = ("--holdout", "0.4", "--holdout-out", "rest.csv", "--evaluate-epsilon", "3")
    result = passes(*given, *aside, "--ledger", "sqlite:///budget.db", "--dataset", "visits")
    assert "Evaluation m.evaluation.json, of what was set aside" in result.stdout
    found = sv.Evaluation.from_json(Path("m.evaluation.json"))
    rest = pd.read_csv("rest.csv")
    model, schema = load_model("m.json")
    encoder = sv.SchemaEncoder(schema)
    assert found.accuracy == pytest.approx(model.score(encoder.transform(rest), encoder.labels(rest)), abs=0.06)
    assert found.plan.n_samples == len(rest)
    assert [charge.state for charge in book.history("visits")] == ["committed", "committed"]
    told = run(*given, *aside, "--force", "--ledger", "sqlite:///budget.db", "--dataset", "visits")
    assert told.exit_code == 2  # the budget of the data set is spent
    for name in ("m.json", "m.receipt.json"):
        Path(name).unlink()
    fails(*given, *aside[:2], *aside[4:], match=r"--evaluate-epsilon m\.evaluation\.json: the file exists")


# ----------------------------- an interrupt


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupt_says_what_became_of_the_budget(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ("fit", "visits.csv", "--schema", "schema.toml", *TRAIN, "--out", "m.json")
    book = sv.Ledger("sqlite:///budget.db")
    book.create("visits", epsilon=100.0, delta=1e-3)
    charged = ("--ledger", "sqlite:///budget.db", "--dataset", "visits")
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["sottovoce.cli.fit"], "open_rows", interrupted)
        result = run(*given)
        assert (result.exit_code, result.stdout, result.stderr) == (130, "", "interrupted\n")
    with monkeypatch.context() as patch:
        patch.setattr(GridGaussian, "release", interrupted)
        told = run(*given).stderr
        assert told == "interrupted: nothing was released, and no ledger was charged.\n"
        told = run(*given, *charged).stderr
        assert re.match(r"interrupted: Charge \w+ of dataset 'visits' counts as spent: the values", told)
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["sottovoce.cli._output"], "write_or_keep", interrupted)
        assert run(*given).stderr.startswith("interrupted: training had ended, without a ledger")
        told = run(*given, *charged).stderr
        assert re.match(r"interrupted: training had ended: charge \w+ of data set 'visits' counts as spent\.", told)
    assert not Path("m.json").exists()
    assert len(book.history("visits")) == 2


# ----------------------------- what a model says


def test_coefficients_are_shown_by_name_and_in_the_units_of_the_table(folder: Path) -> None:
    shown = passes("show", "model.json").stdout
    assert "What adds up to the log odds of again = yes" in shown
    assert re.search(r"age +\S+ +\S+ +for each 1 more of age, from 10 to 100", shown)
    assert re.search(r"reason=injury +(\S+) +\1 +where reason=injury", shown)
    assert re.search(r"age is missing +(\S+) +\1 +where age is missing", shown)
    model, schema = load_model("model.json")
    told = json.loads(passes("show", "model.json", "--coefficients", "--json").stdout)
    (scores,) = told["scores"]
    names = sv.SchemaEncoder(schema).get_feature_names_out()
    assert {one["feature"]: one["coefficient"] for one in scores["coefficients"]} == dict(
        zip(names, model.coef_[0], strict=True)
    )
    sizes = [abs(one["coefficient"]) for one in scores["coefficients"]]
    assert sizes == sorted(sizes, reverse=True)
    assert scores["intercept"] == model.intercept_[0]
    # one year more, another category, and a missing value change the log odds by what is shown
    frame = pd.DataFrame({"age": [50, 51, 50, None], "reason": ["pain", "pain", "check", "pain"]})
    score = model.decision_function(sv.SchemaEncoder(schema).transform(frame))
    amount = {one["feature"]: one["amount"] for one in scores["coefficients"]}
    assert score[1] - score[0] == pytest.approx(amount["age"])
    assert score[2] - score[0] == pytest.approx(amount["reason=check"] - amount["reason=pain"])
    assert score[3] - score[0] == pytest.approx(amount["age is missing"] - (50 - 55) * amount["age"])


# ----------------------------- the shell

ALL = [
    "fit", "predict", "evaluate", "show", "plan", "schema", "receipt", "proof", "ledger", "vertical", "local",
    "compile",
]  # fmt: skip


def completed(line: str, shell: str = "bash") -> list[str]:
    told = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}, "zsh": {"_TYPER_COMPLETE_ARGS": line},
    }  # fmt: skip
    result = run(prog_name="sottovoce", env={**told[shell], "_SOTTOVOCE_COMPLETE": f"complete_{shell}"})
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.split()


def test_the_shell_proposes_commands_options_and_values() -> None:
    assert completed("sottovoce pre") == ["predict"]
    assert completed("sottovoce ledger im") == ["import"]
    assert '"predict"' in " ".join(completed("sottovoce pre", "zsh"))
    assert completed("sottovoce fit visits.csv --holdout-") == ["--holdout-out"]
    assert completed("sottovoce fit visits.csv --model l") == ["logistic", "lasso"]
    assert completed("sottovoce fit vis") == []
    assert "--install-completion" in passes("--help").stdout
    for shell in ("bash", "zsh"):
        script = run(prog_name="sottovoce", env={"_SOTTOVOCE_COMPLETE": f"source_{shell}"}).stdout
        assert f"_SOTTOVOCE_COMPLETE=complete_{shell}" in script


def test_a_proposal_of_commands_imports_none_of_them() -> None:
    """They are in their order, and the program starts without the heavy libraries."""
    code = (
        "import os, sys; sys.argv = ['sottovoce']\n"
        "os.environ |= {'_SOTTOVOCE_COMPLETE': 'complete_bash', 'COMP_WORDS': 'sottovoce ', 'COMP_CWORD': '1'}\n"
        "from sottovoce.cli import main\n"
        "try:\n    main()\nfinally:\n"
        "    print(sorted({'sklearn', 'scipy', 'pandas', 'numba', 'pyarrow', 'dp_accounting'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == [*ALL, "[]"]
