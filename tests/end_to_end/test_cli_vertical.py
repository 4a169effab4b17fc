"""`sottovoce vertical simulate`: one table that is split, and every wrong use."""

import json
import re
import runpy
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import Result

from sottovoce import Guarantee
from sottovoce.vertical import Comparison
from sottovoce.vertical.estimators.choices import MECHANISMS
from support import commands

# what is said of trainings that stop early: tests/unit/vertical/test_vertical_frank_wolfe.py
pytestmark = pytest.mark.filterwarnings("ignore:no convergence in max_iter")

N = 400

HEAD = 'format = "sottovoce-schema"\nversion = 1\n'
AGE = '[columns.age]\ntype = "numeric"\nbounds = [18, 90]\n'
SMOKES = '[columns.smokes]\ntype = "categorical"\ncategories = ["no", "yes"]\n'
INCOME = '[columns.income]\ntype = "numeric"\nbounds = [0, 100]\nbins = [25, 50, 75]\n'
DEBT = '[columns.debt]\ntype = "categorical"\ncategories = ["no", "yes"]\n'
ILL = '[columns.ill]\ntype = "categorical"\ncategories = ["well", "ill"]\n'
WEIGHT = '[columns.weight]\ntype = "numeric"\nbounds = [40, 140]\n'


def frame() -> pd.DataFrame:
    """One person a row; illness depends on the columns of both parties."""
    rng = np.random.default_rng(0)
    age, income = rng.integers(18, 91, N), rng.integers(0, 101, N)
    smokes, debt = rng.random(N) < 0.4, rng.random(N) < 0.4
    risk = (age - 54) / 20 + 1.5 * smokes - (income - 50) / 15 + 1.5 * debt - 1.2
    return pd.DataFrame(
        {
            "patient": [f"p{number:03}" for number in rng.permutation(N)],
            "age": age,
            "smokes": np.where(smokes, "yes", "no"),
            "income": income,
            "debt": np.where(debt, "yes", "no"),
            "weight": np.clip(70 + 10 * risk + rng.normal(0, 5, N), 40, 140).round(1),
            "ill": np.where(risk + rng.logistic(0, 0.3, N) > 0, "ill", "well"),
        }
    )


def run(*arguments: object) -> Result:
    return commands.run("vertical", "simulate", *arguments)


def as_options(options: dict[str, Any]) -> list[object]:
    pairs = []
    for name, value in options.items():
        for item in value if isinstance(value, list) else [value]:
            if item is not None:
                pairs += [f"--{name.replace('_', '-')}", item]
    return pairs


class Folder:
    """Tables, schemas, and the command on them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.table = path / "people.csv"
        frame().to_csv(self.table, index=False)
        whole = HEAD + 'target = "ill"\n' + AGE + SMOKES + INCOME + DEBT + WEIGHT.replace('"numeric"', '"ignore"')
        (path / "people.toml").write_text(whole.replace("bounds = [40, 140]\n", "") + ILL)

    def schema(self) -> str:
        return (self.path / "people.toml").read_text()

    def one(self, *more: object, **options: Any) -> list[object]:
        chosen = {"model": "logistic", "epsilon": 4, "delta": 1e-5, "party": ["clinic=age,smokes", "bank"]}
        chosen |= {"schema": self.path / "people.toml", **options}
        return [chosen.pop("table", self.table), *as_options(chosen), *more]


def passes(*arguments: object) -> Result:
    return commands.passes("vertical", "simulate", *arguments)


def fails(*arguments: object, match: str) -> str:
    return commands.fails("vertical", "simulate", *arguments, match=match)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def figures(stdout: str, measure: str) -> tuple[float, float]:
    """Return the local and the joint figure of a measure."""
    found = re.search(rf"^ {re.escape(measure)} +(-?[\d.]+) +(-?[\d.]+) *$", stdout, re.MULTILINE)
    assert found is not None, stdout
    return float(found[1]), float(found[2])


# ----------------------------- one table, split


def test_one_table_is_split_and_compared_on_held_out_people(folder: Folder) -> None:
    result = passes(*folder.one())
    assert "note: a simulation. All columns are brought together on this machine" in result.stderr
    assert re.search(r"clinic +400 +3 +1\.41421 +no +yes", result.stdout)
    assert re.search(r"bank +400 +6 +1\.41421 +yes *\n", result.stdout)
    assert re.search(r"people trained on +320\b", result.stdout)
    assert re.search(r"people to compare on +80\b", result.stdout)
    assert re.search(r"bytes up, from the parties +\d+", result.stdout)
    assert "(4, 1e-05)-differential privacy for one person" in result.stdout
    assert "What each party gives away by itself" in result.stdout
    assert "Local against joint, on 80 held-out people\n" in result.stdout
    figures(result.stdout, "accuracy")
    assert "own on these people" in result.stdout or "The joint model is better than" in result.stdout
    assert result.stdout.rstrip().endswith("computed from the labels of these people, without noise.")
    assert "random_state" not in result.stdout
    first, again, other = (passes(*folder.one("--quiet", random_state=seed)).stdout for seed in (5, 5, 6))
    assert first == again != other
    assert first.startswith("Local against joint")


def test_without_noise_the_joint_model_sees_what_the_local_one_cannot(folder: Folder) -> None:
    result = passes(*folder.one(epsilon="inf", delta=None, random_state=0))
    local, joint = figures(result.stdout, "accuracy")
    assert joint > local + 0.08
    assert "The joint model beats clinic's own on these people." in result.stdout
    assert "NOT PRIVATE: this model was trained without noise" in result.stdout
    assert "converge" not in result.stderr


@pytest.mark.parametrize("mechanism", list(MECHANISMS))
def test_every_mechanism_runs(folder: Folder, mechanism: str) -> None:
    joint = {"engine": "in-process"} if mechanism == "secure" else {}
    result = passes(*folder.one(mechanism=mechanism, epsilon=1, **joint))
    assert re.search(rf"mechanism = {mechanism}\b", result.stdout)


def of_a_number(folder: Folder) -> Path:
    """Return a schema whose target is a number."""
    schema = folder.path / "weight.toml"
    text = folder.schema().replace('"ill"\n[columns.age', '"weight"\n[columns.age').replace(ILL, "")
    schema.write_text(text.replace('[columns.weight]\ntype = "ignore"\n', WEIGHT))
    return schema


def test_ridge_and_svm(folder: Folder) -> None:
    schema = of_a_number(folder)
    result = passes(*folder.one(model="ridge", epsilon="inf", delta=None, schema=schema, random_state=0))
    assert figures(result.stdout, "mean squared error")[1] < 60 < figures(result.stdout, "mean squared error")[0]
    passes(*folder.one(model="ridge", schema=schema))
    figures(
        passes(*folder.one("--labels-public", model="lasso", radius=60, schema=schema)).stdout, "mean squared error"
    )
    result = passes(*folder.one("--no-intercept", model="svm", epsilon="inf", delta=None, tol=1e-3))
    assert re.search(r"Newton's method on all columns", result.stdout)
    result = passes(*folder.one(epsilon="inf", delta=None, max_iter=1))
    assert "did not converge in 1 steps; raise --max-iter" in result.stderr


def test_two_tables_are_joined_by_a_query(folder: Folder) -> None:
    """Another order of the rows, people whom one table lacks: those in common are trained on."""
    duckdb = pytest.importorskip("duckdb")
    people, database = frame(), folder.path / "both.db"
    clinic = people[["patient", "age", "smokes", "ill"]].iloc[3:]
    bank = people[["income", "debt", "patient"]].sample(frac=1.0, random_state=1)
    with duckdb.connect(str(database)) as connection:
        for name, table in (("clinic", clinic), ("bank", bank)):
            connection.register("given", table)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    query = "SELECT * FROM clinic JOIN bank USING (patient) ORDER BY patient"
    options = {"query": query, "epsilon": "inf", "delta": None}
    (folder.path / "people.toml").write_text(re.sub(r"\[columns.weight\]\n.*\n", "", folder.schema()))
    result = passes(*folder.one(table=f"duckdb:///{database}", random_state=0, **options))
    assert re.search(r"clinic +397 +3 ", result.stdout)
    local, joint = figures(result.stdout, "accuracy")
    assert joint > local + 0.08  # people who were mixed up would not do that


def test_public_labels_elsewhere_and_another_share(folder: Folder) -> None:
    result = passes(*folder.one("--labels-public", holdout=0.25, label_holder="bank"))
    assert "the labels are public and not covered" in re.sub(r"\s+", " ", result.stdout)
    assert re.search(r"clinic +400 +3 +1\.41421 +no *\n", result.stdout)
    assert re.search(r"bank +400 +6 +1\.41421 +yes +yes", result.stdout)
    assert "bank alone" in result.stdout
    assert re.search(r"people trained on +300\b", result.stdout)
    assert "on 100 held-out people" in result.stdout


# ----------------------------- the sentence


@pytest.mark.parametrize(
    ("joint", "sentence"),
    [
        ({"accuracy": 0.9, "log loss": 0.2}, "The joint model beats"),
        ({"accuracy": 0.7, "log loss": 0.4}, "The joint model does not beat clinic's own on these people: .* at this"),
        ({"accuracy": 0.9, "log loss": 0.4}, "is better than clinic's own in accuracy, and not in log loss"),
    ],
)
def test_a_joint_model_that_does_not_pay_is_called_so(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, joint: dict[str, float], sentence: str
) -> None:
    made = Comparison(80, {"accuracy": 0.8, "log loss": 0.3}, joint)
    monkeypatch.setattr("sottovoce.vertical.estimators.base.VerticalEstimator.compare", lambda *_: made)
    assert re.search(sentence, passes(*folder.one("--quiet")).stdout)


# ----------------------------- wrong use, refused before a table is read


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": "much"}, r"--alpha must be a number or auto; got 'much'"),
        ({"mechanism": "magic"}, r"mechanism must be one of 'local-models'.*; got 'magic'"),
        ({"max_iter": 3}, r"--max-iter is for a training without noise"),
        ({"epsilon": "inf", "mechanism": "local-models"}, r"--mechanism is for a private training"),
        ({"epsilon": "inf", "max_iter": 0}, r"--max-iter must be a whole number >= 1; got 0"),
        ({"target": "age", "party": ["clinic=smokes", "bank"]}, r"--model logistic predicts one of two classes"),
        ({"party": None}, r"--party is missing: say who holds which columns"),
        ({"party": ["clinic=age,smokes", "bank=debt"]}, r"nobody holds the column\(s\) income\. .*--party NAME"),
        ({"party": ["clinic=age,wage", "bank"]}, r"clinic=age,wage: .* no feature column 'wage'; there are age,"),
        ({"party": ["clinic=age", "bank=age", "shop"]}, r"--party bank=age: the column 'age' is that of 'clinic'"),
        ({"party": ["clinic=age", "clinic=debt"]}, r"--party clinic=debt: party 'clinic' is given twice"),
        ({"party": ["clinic", "bank"]}, r"--party bank: only one party can have all other columns, and 'clinic' has"),
        ({"party": ["clinic"]}, r"needs two parties or more; got 1"),
        ({"party": ["clinic=", "bank"]}, r"--party clinic: the party has no columns"),
        ({"party": ["clinic=age,smokes,income,debt", "bank"]}, r"--party bank: the party has no columns"),
        ({"party": ["../up=age", "bank"]}, r"--party \.\./up=age: the name of a party has letters, .* got '\.\./up'"),
        ({"label_holder": "shop"}, r"--label-holder shop: no party is named 'shop'; there are clinic, bank"),
        ({"model": "sparse-logistic"}, r"--radius is missing: --model sparse-logistic needs --radius R"),
        (
            {"model": "sparse-logistic", "radius": 1, "n_steps": 9, "epsilon": "inf", "delta": None},
            r"--n-steps is for a private training",
        ),
        ({"schema": None}, r"(?s)--schema is missing.*sottovoce schema .*people\.csv --target NAME > schema\.toml"),
        ({"holdout": "nan"}, r"--holdout must be a finite number > 0 and < 1; got nan"),
        ({"helper": "notary"}, r"--helper is for --mechanism secure or auto"),
        ({"engine": "spu"}, r"--engine is for --mechanism secure or auto"),
        ({"mechanism": "secure", "engine": "semi2k"}, r"engine must be one of"),
    ],
)
def test_a_wrong_option_is_refused_before_the_table_is_read(
    folder: Folder, options: dict[str, Any], message: str
) -> None:
    folder.table.write_bytes(b"\x00")
    fails(*folder.one(**options), match=message)


def test_wrong_tables_are_refused_without_a_word_about_other_rows(folder: Folder) -> None:
    folder.table.write_text("\n".join(folder.table.read_text().splitlines()[:4]) + "\n")
    fails(*folder.one(), match=r"--holdout: 3 people are too few to train on some")


def test_wrong_classes(folder: Folder) -> None:
    schema, text = folder.path / "people.toml", folder.schema()
    schema.write_text(text.replace(ILL, ILL.replace('"well"', '"well", "dying"')))
    fails(*folder.one(), match=r"needs their public list; got 3")


# ----------------------------- few coefficients


def test_few_coefficients(folder: Folder) -> None:
    options = {"model": "sparse-logistic", "radius": 4, "n_steps": 5, "epsilon": 8, "random_state": 0}
    told = json.loads(passes(*folder.one("--labels-public", "--json", **options)).stdout)
    receipt = Guarantee.from_dict(told["guarantee"])
    assert receipt.epsilon <= 8
    assert (receipt.parameters["mechanism"], receipt.parameters["steps"]) == ("local", 5)
    assert any("data_bound = 1 " in each for each in receipt.assumptions)


# ----------------------------- joint training


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"mechanism": "secure"}, "parties that compute = ['clinic', 'bank', 'notary']"),
        ({"model": "sparse-logistic", "radius": 4, "n_steps": 3, "aggregation": "secure"}, "each party's Gumbel noise"),
    ],
)
def test_joint_training_in_one_process(folder: Folder, options: dict[str, Any], told: str) -> None:
    result = passes(*folder.one(**options, engine="in-process", helper="notary", epsilon=1))
    assert told in result.stdout
    figures(result.stdout, "accuracy")


# ----------------------------- the demo


def test_the_demo_of_four_organisations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it sets up passes; what it asks of sites that run takes the arguments that it gives."""
    pytest.importorskip("nvflare")
    pytest.importorskip("statsmodels")
    path = Path(__file__).parents[2] / "examples" / "demo_vertical.py"
    demo = runpy.run_path(str(path), run_name="demo")
    monkeypatch.chdir(tmp_path)
    asked: list[str] = []

    def run(command: str, **_: bool) -> None:
        asked.append(command)
        if any("vertical party" in each and "--check" not in each for each in asked):
            commands.parsed(*shlex.split(command))
        else:
            commands.passes(*shlex.split(command))

    @contextmanager
    def running(command: str, _: Path) -> Iterator[None]:
        asked.append(command)
        commands.parsed(*shlex.split(command))
        yield

    played = {"run": run, "running": running, "newest_run": lambda: "RUN", "show": lambda *_: None}
    demo["main"].__globals__.update(played, compare=lambda *_: None)
    demo["main"]()
    assert len([each for each in asked if each.startswith("ledger create")]) == 4
    assert len([each for each in asked if each.startswith("vertical train")]) == 3
