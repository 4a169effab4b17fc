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
from typer.main import get_command

import sottovoce as sv
from sottovoce.cli import app
from sottovoce.cli._rows import RowReader
from sottovoce.estimators.persistence import load_model
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from support.commands import fails, passes, process, records, run

N = 900
ALL = get_command(app).list_commands(None)
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
    given = ("fit", "visits.csv", "--schema", "schema.toml", *TRAIN, "--out", "m.json")
    result = passes(*given, "--holdout", "0.25", "--holdout-out", "rest.csv", "--random-state", "1")
    rest = pd.read_csv("rest.csv")
    assert 0.15 * N < len(rest) < 0.35 * N
    assert rest.columns.tolist() == visits().columns.tolist()
    receipt = json.loads(Path("m.receipt.json").read_text())
    assert receipt["parameters"]["n_samples"] == N - len(rest)
    assert re.search(r"set aside +0\.25 of the rows, by coins, in rest\.csv; never trained on", result.stdout)
    scored = passes("predict", "m.json", "rest.csv", "--score")
    assert f"on {len(rest)} rows. NOT PRIVATE" in scored.stderr
    fails(*given, "--force", "--holdout", "0.25", match=r"--holdout sets rows aside, and nothing says what for")
    fails(*given, "--force", "--evaluate-epsilon", "1", match=r"--evaluate-epsilon needs --holdout SHARE")
    fails(
        *given, "--force", "--holdout", "0.2", "--evaluate-epsilon", "0",
        match=r"--evaluate-epsilon must be a finite number > 0; got 0",
    )  # fmt: skip
    fails(*given, "--force", "--holdout-out", "other.csv", match=r"--holdout-out needs --holdout SHARE")
    fails(
        *given, "--force", "--holdout", "1", "--holdout-out", "other.csv",
        match=r"--holdout must be a finite number > 0 and < 1; got 1",
    )  # fmt: skip
    fails(
        *given[:-1], "n.json", "--holdout", "0.2", "--holdout-out", "rest.csv",
        match=r"--holdout-out .*rest\.csv: the file exists",
    )  # fmt: skip
    assert not Path("n.json").exists()


def test_held_out_rows_of_other_formats_read_the_same(folder: Path) -> None:
    visits().to_parquet("visits.parquet", index=False)
    for table in ("visits.parquet", "visits.csv"):
        given = ("fit", table, "--schema", "schema.toml", *TRAIN, "--force", "--out", "m.json", "--random-state", "3")
        passes(*given, "--holdout", "0.3", "--holdout-out", "rest.csv")
        found = pd.read_csv("rest.csv")
        if table == "visits.parquet":
            first = found
    pd.testing.assert_frame_equal(found, first)
    n_trained = json.loads(Path("m.receipt.json").read_text())["parameters"]["n_samples"]
    assert n_trained + len(found) == N
    asked, left = (list(csv.reader(Path(name).read_text().splitlines())) for name in ("visits.csv", "rest.csv"))
    assert set(map(tuple, left)) < set(map(tuple, asked))  # the cells as they are in the file


def test_class_weights_are_given_by_name(folder: Path) -> None:
    given = ("fit", "visits.csv", "--schema", "schema.toml", "--epsilon", "8", "--delta", "1e-6", "--out", "m.json")
    passes(*given, "--model", "logistic", "--class-weight", "no=1,yes=3")
    assert load_model("m.json")[0].class_weight == {"no": 1.0, "yes": 3.0}
    logistic = (*given, "--force", "--model", "logistic")
    for wrong in ("no", "no=1,no=2", "no=x,yes=1", "=1"):
        fails(
            *logistic,
            "--class-weight",
            wrong,
            match=r"--class-weight must be one weight for each class, such as no=1,yes=3; got",
        )
    fails(*logistic, "--class-weight", "no=1", match=r"one weight for each class")
    fails(
        *given, "--force", "--model", "sparse-logistic", "--radius", "3", "--class-weight", "no=1,yes=3",
        match=r"--class-weight is for --model logistic and svm, not for sparse-logistic",
    )  # fmt: skip


def test_predictions_stand_beside_whose_they_are(folder: Path) -> None:
    found = records(passes("predict", "model.json", "visits.csv", "--id", "patient", "--id", "age").stdout)
    table = records(Path("visits.csv").read_text())
    assert list(found[0]) == ["patient", "age", "prediction"]
    assert [(row["patient"], row["age"]) for row in found] == [(row["patient"], row["age"]) for row in table]
    fails(
        "predict",
        "model.json",
        "visits.csv",
        "--id",
        "patien",
        match=r"there is no column 'patien' .*Did you mean 'patient'",
    )
    visits().rename(columns={"patient": "prediction"}).to_csv("clash.csv", index=False)
    fails(
        "predict",
        "model.json",
        "clash.csv",
        "--id",
        "prediction",
        match=r"--id prediction: the predictions have a column of this name",
    )


def test_a_table_can_come_from_standard_input(folder: Path) -> None:
    with Path("visits.csv").open("rb") as table:
        done = process("predict", "model.json", "-", stdin=table)
    assert done.returncode == 0, done.stderr
    assert done.stdout == passes("predict", "model.json", "visits.csv").stdout


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
    fails(*facts, "--max-rows-per-unit", 0, match=r"--max-rows-per-unit must be a whole number")


def test_visits_without_a_person_change_nothing(folder: Path) -> None:
    before = weights("visits.csv", *PERSONS)
    other = visits()
    other.loc[other["patient"] == "", ["age", "reason", "again"]] = [18, "injury", "no"]
    other.to_csv("other.csv", index=False)
    assert weights("other.csv", *PERSONS) == before
    other.replace({"patient": {"": None}}).to_parquet("other.parquet", index=False)
    assert weights("other.parquet", *PERSONS) == before


def test_whole_people_are_held_out_and_nothing_of_them_is_learned(folder: Path) -> None:
    given = ("visits.csv", *PERSONS, "--holdout", "0.3", "--holdout-out", "rest.csv")
    before = weights(*given)
    rest, table = pd.read_csv("rest.csv"), visits()
    held = table["patient"].isin(rest["patient"])
    assert len(rest) == held.sum()
    assert 0.15 * N < len(rest) < 0.45 * N
    assert not rest["patient"].isna().any()
    receipt = json.loads(Path("m.receipt.json").read_text())
    assert receipt["parameters"]["n_samples"] == N  # how many rows the others have is secret
    table.loc[held, ["age", "reason"]] = [18, "injury"]
    table.to_csv("visits.csv", index=False)
    assert weights(*given) == before
    table.loc[~held & (table["patient"] != ""), "reason"] = "pain"
    table.to_csv("visits.csv", index=False)
    assert weights(*given) != before


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--unit", "age", "--max-rows-per-unit", 3], r"schema\.toml: unit 'age' is described as a feature"),
        (["--unit", "again", "--max-rows-per-unit", 3], r"schema\.toml: unit 'again' is the target"),
        (["--unit", "patien", "--max-rows-per-unit", 3], r"there is no column 'patien' .*Did you mean 'patient'"),
        (["--unit", "patient"], r"--max-rows-per-unit is missing: .*Give --max-rows-per-unit K, .*Never compute"),
        (["--max-rows-per-unit", 3], r'schema\.toml: max_rows_per_unit needs unit = "COLUMN"'),
        (["--unit", "patient", "--max-rows-per-unit", 0], r"max_rows_per_unit must be a whole number .*; got 0"),
    ],
)
def test_a_wrong_unit_is_refused(folder: Path, given: list[object], message: str) -> None:
    fails("fit", "visits.csv", *TRAIN, "--schema", "schema.toml", "--out", "m.json", *given, match=message)
    assert not Path("m.json").exists()


def test_a_unit_of_another_kind_is_refused_before_anything_is_charged(folder: Path) -> None:
    sv.Ledger("sqlite:///budget.db").create("visits", epsilon=9.0, delta=1e-3, unit="person")
    visits().assign(patient=pd.Timestamp("2020-01-01")).to_parquet("visits.parquet", index=False)
    fails(
        "fit", "visits.parquet", *TRAIN, "--schema", "schema.toml", "--out", "m.json", *PERSONS,
        "--ledger", "sqlite:///budget.db", "--dataset", "visits",
        match=r"visits\.parquet, column 'patient': values of type timestamp.* do not say whose row it is",
    )  # fmt: skip
    assert sv.Ledger("sqlite:///budget.db").history("visits") == []


def test_a_unit_is_refused_where_one_row_is_one_person(folder: Path) -> None:
    schema = Path("schema.toml").read_text().replace('target = "again"', 'target = "again"\nunit = "patient"')
    Path("visits.toml").write_text(schema)
    fails(
        "vertical", "simulate", "visits.csv", "--party", "a=age", "--party", "b", "--model", "ridge", "--epsilon", "1",
        match=r"names the unit 'patient': between parties one aligned row is one person",
    )  # fmt: skip
    fails(
        "local", "protocol", "--schema", "visits.toml", "--epsilon", "1", "--n-expected", "900", "--out", "p.json",
        match=r"unit 'patient': one report is one person",
    )  # fmt: skip


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


def test_people_who_were_set_aside_are_protected_as_people(folder: Path) -> None:
    given = ("fit", "visits.csv", "--schema", "schema.toml", *TRAIN, *PERSONS, "--out", "m.json", "--quiet")
    passes(*given, "--holdout", "0.5", "--evaluate-epsilon", "9")
    found = sv.Evaluation.from_json(Path("m.evaluation.json"))
    assert found.guarantee_.unit.startswith("one person: all rows of one group, of which at most 3 rows are used")
    assert 0.3 * N < found.n_rows < 0.7 * N


# ----------------------------- an interrupt


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupt_says_what_became_of_the_budget(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ("fit", "visits.csv", "--schema", "schema.toml", *TRAIN, "--out", "m.json")
    book = sv.Ledger("sqlite:///budget.db")
    book.create("visits", epsilon=100.0, delta=1e-3)
    charged = ("--ledger", "sqlite:///budget.db", "--dataset", "visits")
    with monkeypatch.context() as patch:
        patch.setattr(RowReader, "open", interrupted)
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
    assert re.search(r"reason=injury +(\S+) +\1 +where reason is injury", shown)
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
    age = next(one for one in scores["coefficients"] if one["feature"] == "age")
    assert age["amount"] == pytest.approx(age["coefficient"] * 2 / 90)
    assert scores["intercept"] == model.intercept_[0]
    fails("show", "model.receipt.json", "--coefficients", match=r"--coefficients: .*model\.receipt\.json is a receipt")


def test_amounts_are_differences_between_predictions(folder: Path) -> None:
    """One year more, another category, and a missing value change the log odds by what is shown."""
    model, schema = load_model("model.json")
    frame = pd.DataFrame({"age": [50, 51, 50, None], "reason": ["pain", "pain", "check", "pain"]})
    score = model.decision_function(sv.SchemaEncoder(schema).transform(frame))
    told = json.loads(passes("show", "model.json", "--coefficients", "--json").stdout)["scores"][0]["coefficients"]
    amount = {one["feature"]: one["amount"] for one in told}
    assert score[1] - score[0] == pytest.approx(amount["age"])
    assert score[2] - score[0] == pytest.approx(amount["reason=check"] - amount["reason=pain"])
    assert score[3] - score[0] == pytest.approx(amount["age is missing"] - (50 - 55) * amount["age"])


# ----------------------------- the shell


def completed(line: str, shell: str = "bash") -> list[str]:
    told = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}, "zsh": {"_TYPER_COMPLETE_ARGS": line},
    }  # fmt: skip
    result = run(prog_name="sottovoce", env={**told[shell], "_SOTTOVOCE_COMPLETE": f"complete_{shell}"})
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.split()


def test_the_shell_proposes_commands_options_and_values(folder: Path) -> None:
    assert completed("sottovoce ") == ALL
    assert completed("sottovoce pre") == ["predict"]
    assert completed("sottovoce ledger im") == ["import"]
    assert '"predict"' in " ".join(completed("sottovoce pre", "zsh"))
    assert completed("sottovoce fit visits.csv --holdout-") == ["--holdout-out"]
    assert completed("sottovoce fit visits.csv --model l") == ["logistic", "lasso"]
    assert completed("sottovoce fit vis") == []


def test_a_proposal_of_commands_imports_none_of_them() -> None:
    code = (
        "import os, sys; sys.argv = ['sottovoce']\n"
        "os.environ |= {'_SOTTOVOCE_COMPLETE': 'complete_bash', 'COMP_WORDS': 'sottovoce ', 'COMP_CWORD': '1'}\n"
        "from sottovoce.cli import main\n"
        "try:\n    main()\nfinally:\n"
        "    print(sorted({'sklearn', 'scipy', 'pandas', 'numba', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == [*ALL, "[]"]


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_can_be_installed(shell: str) -> None:
    script = run(prog_name="sottovoce", env={"_SOTTOVOCE_COMPLETE": f"source_{shell}"}).stdout
    assert f"_SOTTOVOCE_COMPLETE=complete_{shell}" in script
    assert "--install-completion" in passes("--help").stdout
