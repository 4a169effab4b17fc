"""Whatever is asked wrongly is one plain error that says what, before data are read, and leaves all files as they were.

Single words of the command line (options that are not there, or without a value) are in `unit/cli/test_cli_help.py`,
tables with a fault in `unit/tables/test_bad_files.py`.
"""

import os
import shlex
from pathlib import Path

import numpy as np
import pytest

from sottovoce import DPRidge
from sottovoce.estimators.persistence import model_to_json
from sottovoce.ledger import Ledger
from support.collector import PROTOCOL
from support.commands import fails, incomes, passes
from support.receipts import made_up
from support.schemas import schema_text

COLUMNS = {"age": (17, 90), "hours": (0, 100), "work": ["private", "state"], "id": None, "income": ["low", "high"]}
FIT = "fit unread.csv --schema s.toml --model logistic --epsilon 1 --delta 1e-5 --out new.json"
SPARSE = f"{FIT} --model sparse-logistic"
ASIDE = f"{FIT} --holdout 0.2 --holdout-out rest.csv"
CHARGED = f"{FIT} --ledger sqlite:///b.db"
PLAN = "plan --model svm --epsilon 1 --delta 1e-5 --n-samples 10"
EVALUATE = "evaluate m.json t.csv --epsilon 1"
MAKE = "local protocol --epsilon 2 --n-expected 100 --out new.json"
RANDOMIZE = "local randomize p.json t.csv --label income --out x.reports"
LOCAL_FIT = "local fit p.json r.parquet --out new.json"
COLLECT = "local collect o.json --port 0 --database new.db"
SIMULATE = "vertical simulate t.csv --party a=age --party b --model ridge --epsilon 1"

WRONG = [
    # numbers and choices of a training
    (f"{FIT} --epsilon nan", r"epsilon must be a number > 0; got nan"),
    (FIT.replace("--delta 1e-5", ""), r"delta is missing"),
    (f"{FIT} --data-norm inf", r"--data-norm must be a finite number >= 1e-50 and <= 1e.50; got inf"),
    (f"{FIT} --adjacency add-remove", r"--n-public is missing"),
    (f"{FIT} --model ridge", r"--model ridge predicts a number, and needs its public bounds"),
    (f"{FIT} --model lasso --radius 3", r"--model lasso predicts a number, and needs its public bounds"),
    (f"{FIT} --target age", r"--model logistic predicts a class, and needs the public list of classes"),
    (f"{SPARSE} --radius 3 --alpha 1", r"--alpha is not for --model sparse-logistic"),
    (f"{SPARSE} --radius 3 --solver scd", r"--solver is not for --model sparse-logistic"),
    (f"{SPARSE} --radius 3 --data-norm 1", r"--data-norm is not for --model sparse-logistic"),
    (SPARSE, r"--radius is missing: --model sparse-logistic needs"),
    (f"{SPARSE} --radius 3 --n-steps 0", r"--n-steps must be .*; got 0"),
    (f"{SPARSE} --radius 3 --class-weight no=1,yes=3", r"--class-weight is for --model logistic and svm, not for spar"),
    (f"{FIT} --radius 3", r"--radius is for --model lasso and sparse-logistic, not for logistic"),
    (f"{FIT} --n-steps 3", r"--n-steps is for --model lasso and sparse-logistic, not for logistic"),
    (f"{FIT} --data-bound 3", r"--data-bound is for --model lasso and sparse-logistic, not for logistic"),
    *((f"{FIT} --class-weight {wrong}", r"--class-weight must be one weight for each class, such as no=1,yes=3; got")
      for wrong in ("low", "low=1,low=2", "low=x,high=1", "=1")),
    (f"{FIT} --class-weight low=1", r"one weight for each class"),
    (f"{FIT} --table-name ' '", r"--table-name must be a string that is not empty"),
    # schemas
    (f"{FIT} --target wage", r"s\.toml: the schema has no column 'wage'\. Did you mean 'age'"),
    (f"{FIT} --target id", r"'id' is the target, but the schema says type = \"ignore\""),
    (FIT.replace("--schema s.toml", ""), r"--schema is missing.*sottovoce schema unread\.csv --target NAME > schema\."),
    (f"{FIT} --schema gone.toml", r"--schema gone\.toml: there is no such file.*sottovoce schema .*> gone\.toml"),
    (f"{FIT} --schema one.toml", r"one\.toml: column 'income' is the target and has the one class 'low'"),
    (f"{FIT} --schema draft.toml", r"draft\.toml: the schema is a draft .* confirmed = false"),
    (f"{FIT} --schema none.toml", r"the schema names no target"),
    (f"{FIT} --delimiter ::", r"table\.delimiter must be one ASCII character"),
    (f"{FIT} --unit age --max-rows-per-unit 3", r"s\.toml: unit 'age' is described as a feature"),
    (f"{FIT} --unit income --max-rows-per-unit 3", r"s\.toml: unit 'income' is the target"),
    (f"{FIT} --unit id", r"--max-rows-per-unit is missing: .*Give --max-rows-per-unit K, .*Never compute"),
    (f"{FIT} --unit id --max-rows-per-unit 0", r"max_rows_per_unit must be a whole number .*; got 0"),
    (f"{FIT} --max-rows-per-unit 3", r's\.toml: max_rows_per_unit needs unit = "COLUMN"'),
    (f"fit t.csv {FIT[15:]} --unit ids --max-rows-per-unit 3", r"there is no column 'ids' .*Did you mean 'id'"),
    (f"{SIMULATE} --schema unit.toml", r"names the unit 'id': between parties one aligned row is one person"),
    (f"{MAKE} --schema unit.toml", r"unit 'id': one report is one person"),
    # places
    (f"{FIT} --out nowhere/m.json", r"--out .*: the folder .*nowhere does not exist"),
    (f"{FIT} --receipt new.json", r"--out and --receipt are the same file"),
    (f"{FIT} --report new.json", r"--out and --report are the same file"),
    (f"{FIT} --receipt card.toml", r"--receipt .*card\.toml: the file exists"),
    (f"{FIT} --model-card card.toml", r"give --report PAGE.html too"),
    (f"{FIT} --report r.html --model-card s.toml", r"model_card: \w+ must be a text"),
    (f"{FIT} --holdout 0.25", r"--holdout sets rows aside, and nothing says what for"),
    (f"{FIT} --evaluate-epsilon 1", r"--evaluate-epsilon needs --holdout SHARE"),
    (f"{FIT} --holdout-out rest.csv", r"--holdout-out needs --holdout SHARE"),
    (f"{ASIDE} --evaluate-epsilon 1e-7", r"--evaluate-epsilon must be a finite number >= 1e-06 and <= 1e\+06; got"),
    (f"{ASIDE} --holdout-out t.csv", r"--holdout-out .*t\.csv: the file exists"),
    (f"fit t.csv {ASIDE[15:]} --holdout 1", r"--holdout must be a finite number > 0 and < 1; got 1"),
    ("schema t.csv --out card.toml", r"the file exists"),
    *((f"schema {table} {option}", rf"{option.split()[0].replace('--no-', '--header/--no-')} says how a CSV file")
      for table in ("t.parquet", "duckdb:///t.db --table t") for option in ("--no-header", "--delimiter ;")),
    ("schema t.csv --target wage", r"no column 'wage' among its 5 .*Did you mean 'age'"),
    # models, predictions, evaluations
    ("show gone.json", r"gone\.json: cannot read the model: No such file"),
    ("show t.csv", r"t\.csv: this is not a model file: it is not JSON"),
    ("show m.receipt.json --coefficients", r"--coefficients: m\.receipt\.json is a receipt"),
    ("predict m.receipt.json t.csv", r"this is the receipt of a model, not the model itself"),
    ("predict plain.json t.csv", r"trained without a schema.*sottovoce\.load_model"),
    ("evaluate plain.json t.csv --epsilon 1", r"trained without a schema.*sottovoce\.load_model"),
    ("predict m.json bare.csv --score", r"bare\.csv: there is no column 'income'"),
    ("predict svm.json t.csv --proba", r"--proba: a DPLinearSVC gives no probabilities"),
    ("predict m.json t.csv --out card.toml", r"--out .*card\.toml: the file exists.*--force"),
    ("predict m.json t.csv --id ids", r"there is no column 'ids' .*Did you mean 'id'"),
    ("predict m.json t.csv --id prediction", r"--id prediction: the predictions have a column of this name"),
    (f"{EVALUATE} --adjacency add-remove", r"--n-public is missing"),
    (f"{EVALUATE} --format libsvm", r"'libsvm' is not one of"),
    (f"{EVALUATE} --out card.toml", r"the file exists"),
    # plans
    (PLAN, r"--n-features is missing: give it, or --schema"),
    (f"{PLAN} --n-features 2 --n-samples 0", r"n-samples must be a whole number >= 1 and <= 137438953472; got 0"),
    (f"{PLAN} --n-features 2 --schema s.toml", r"together with --schema"),
    (f"{PLAN} --n-features 2 --target income", r"--target is for --schema"),
    (f"{PLAN} --n-features 2 --max-rows-per-unit 0", r"--max-rows-per-unit must be a whole number"),
    (f"{PLAN} --n-features 2 --picture card.toml", r"--picture .*card\.toml"),
    (f"{PLAN} --n-features 2 --accuracy-without-noise 0.3", r"accuracy-without-noise must be"),
    (f"{PLAN} --n-features 2 --epsilon inf --largest-class 0.6", r"--largest-class is for a forecast, and there is"),
    (f"{PLAN} --n-features 2 --model ridge", r"--schema is missing: --model ridge predicts a number"),
    (f"{PLAN} --schema s.toml --model sparse-logistic", r"--radius is missing"),
    # receipts
    ("show a.json --model-card card.toml", r"--model-card is for the page: give --html"),
    ("show a.json --html p.html --json", r"--json prints, and --html writes a page"),
    ("show a.json --html card.toml", r"the file exists"),
    ("show a.json --html no/p.html", r"does not exist"),
    ("show a.json --html p.html --model-card no.toml", r"cannot read the model card"),
    ("show false.json --html p.html", r"more than the epsilon=0.5 of this receipt"),
    ("receipt verify no.json", r"cannot read the file"),
    ("receipt verify list.json", r"neither a receipt, a model, an evaluation, nor the page"),
    ("receipt sum a.json no.json", r"cannot read the file"),
    ("receipt sum a.json false.json", r"more than the epsilon=0.5"),
    # ledgers
    ("ledger show --dataset people --ledger sqlite:///none.db", r"there is no ledger at"),
    ("ledger create --ledger sqlite:///n.db --dataset ' ' --epsilon 1 --delta 0", r"dataset must be a name"),
    ("ledger create --ledger sqlite:///b.db --dataset people --epsilon 1 --delta 0", r"exists already"),
    ("ledger verify --file none.jsonl", r"cannot read the export"),
    ("ledger verify", r"--ledger is missing"),
    ("ledger verify --file a.jsonl --ledger sqlite:///b.db", r"--ledger and --file are two ledgers"),
    ("ledger export --ledger sqlite:///b.db --out none/all.jsonl", r"does not exist"),
    ("ledger history --ledger sqlite:///b.db --dataset others", r"there are: 'people'"),
    (f"{FIT} --dataset people", r"ledger is missing"),
    (CHARGED, r"dataset is missing"),
    (f"fit t.csv {CHARGED[15:]} --dataset people --random-state 0", r"Leave random_state out"),
    # devices and collectors
    (MAKE, r"--schema is missing"),
    (f"{MAKE} --schema s.toml --out p.json", r"the file exists"),
    (f"{MAKE} --schema bins.toml", r"column 'age': devices know neither bins"),
    (f"{RANDOMIZE} --label sick", r"there is no column 'sick'"),
    (f"{RANDOMIZE} --out x.jsonl", r"--tokens is missing"),
    (f"{RANDOMIZE} --out x.csv", r"in .parquet or .reports to fit"),
    (f"{RANDOMIZE} --max-epsilon 1", r"more than max_epsilon"),
    (f"{RANDOMIZE} --tokens few", r"needs 60 different tokens of 16 to 128 .*; got 1 of 1"),
    (f"{RANDOMIZE} --tokens odd", r"needs 60 different tokens .*; got 60 of 61"),
    ("local randomize p.json old.csv --label income --out x.reports", r"line 3, column 'age': 'old' is not a number"),
    ("local randomize p.json short.csv --label income --out x.reports", r"line 2: 2 cells instead of 4"),
    ("local fit p.json sqlite:///none.db --out new.json", r"no such file"),
    ("local fit p.json none.parquet --out new.json", r"cannot read the reports"),
    ("local fit p.json t.csv --out new.json", r"ends in .parquet or .reports"),
    ("local fit p.json empty.reports --out new.json", r"there are no reports"),
    ("local fit p.json text.parquet --out new.json", r"text.parquet: cannot read"),
    ("local fit gone.json r.parquet --out new.json", r"cannot read the protocol"),
    ("local fit o.json r.parquet --out new.json", r"not reports of protocol"),
    *((f"local export p.json --database none.db --out x.{kind}", r"no such file") for kind in ("parquet", "reports")),
    *((f"schema {address}", r"password\): a table is a file .* postgresql://.* in Python, sottovoce.ParquetTable reads")
      for address in ("s3://people/t.parquet", "abfs://s3cret@a.b/c", "gs://b/c", "mysql://u:s3cret@h/x", "file:///c")),
    (f"{LOCAL_FIT} --degree hinges", r"or auto; got"),
    (f"{LOCAL_FIT} --alpha hinges", r"must be a valid number; got"),
    ("local fit p.json r.parquet r.parquet --out new.json", r"60 of the 120 reports have the seed of another one"),
    (f"{COLLECT} --database mysql://u:s3cret@h/x", r"must be a SQLite file"),
    (f"{COLLECT} --database none/x.db", r"cannot make the file"),
    (f"{COLLECT} --static none", r"--static none: there is no such folder\. Give the one"),
    (f"{COLLECT} --token-key o.json", r"64 hexadecimal digits"),
    (f"{COLLECT} --port 18999 --operator-key k --operator-port 18999", r"another one than --port; got 18999 for both"),
    (f"{COLLECT} --max-rate 0", r"--max-rate must be"),
    *((f"{COLLECT} {option} 9", rf"{option} is for the operator's page: give --operator-key too")
      for option in ("--expected", "--operator-host", "--operator-port")),
    ("local randomize o.json t.csv --label income --out x.reports --missing ?", r"--missing is for protocols with fea"),
    (f"{COLLECT} --host 256.1.1.1", r"host 256.1.1.1"),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a user may have: tables, schemas, models, receipts, a ledger, a protocol and reports."""
    place = tmp_path_factory.mktemp("wrong")
    schema = schema_text("income", **COLUMNS)
    unit = schema.replace("version = 1", 'version = 1\nunit = "id"')
    local = {name: COLUMNS[name] for name in ("age", "work", "income")}
    for name, text in {
        "s.toml": schema, "unit.toml": unit, "none.toml": schema.replace('target = "income"\n', ""),
        "one.toml": schema.replace('["low", "high"]', '["low"]'),
        "draft.toml": schema.replace("version = 1", "version = 1\nconfirmed = false"),
        "local.toml": schema_text("income", "[table]\nmissing = []\n", **local),
        "bins.toml": schema_text("income", **local).replace("[17, 90]", "[17, 90]\nbins = [40]"),
        "card.toml": 'name = "Readmission"\nintended_use = "a call"\n', "unread.csv": "\0", "list.json": "[]",
        "old.csv": "age,work,income\n30,state,low\nold,state,low\n", "short.csv": "age,work,id,income\n30,state\n",
        "few": "a" * 16 + "\n", "odd": " ".join(f"{each:060}" for each in range(60)) + " c",
        "empty.reports": "", "text.parquet": "text", "o.json": PROTOCOL.to_json(), "a.json": made_up().to_json(),
        "false.json": made_up().to_json().replace('"epsilon": 1.5', '"epsilon": 0.5'),
    }.items():  # fmt: skip
        (place / name).write_text(text)
    table = incomes(60).assign(hours=np.arange(60))
    table.to_csv(place / "t.csv", index=False)
    table.to_parquet(place / "t.parquet")
    table.drop(columns="income").to_csv(place / "bare.csv", index=False)
    X = np.random.default_rng(0).random((20, 2))
    plain = DPRidge(epsilon=np.inf, data_norm=2.0, label_bounds=(-1, 1)).fit(X, X[:, 0])
    (place / "plain.json").write_text(model_to_json(plain))
    train = ("fit", place / "t.csv", "--schema", place / "s.toml", "--epsilon", 1, "--delta", 1e-5, "--quiet")
    passes(*train, "--model", "logistic", "--out", place / "m.json")
    passes(*train, "--model", "svm", "--out", place / "svm.json", "--data-norm", 0.5)
    Ledger(f"sqlite:///{place / 'b.db'}").create("people", epsilon=10.0, delta=1e-3)
    passes("local", *MAKE.split()[1:-1], place / "p.json", "--schema", place / "local.toml")
    passes("local", "randomize", place / "p.json", place / "t.csv", "--label", "income", "--out", place / "r.parquet")
    passes("local", "fit", place / "p.json", place / "r.parquet", "--out", place / "local.json")
    return place


@pytest.mark.parametrize(("line", "said"), WRONG, ids=[line for line, _ in WRONG])
def test_wrong_use_is_one_error_and_changes_nothing(folder, monkeypatch, line, said):
    monkeypatch.chdir(folder)
    monkeypatch.delenv("SOTTOVOCE_LEDGER", raising=False)
    before = {path: path.read_bytes() for path in Path().iterdir()}
    told = fails(*shlex.split(line), match=f"(?s){said}")
    assert "s3cret" not in told
    assert {path: path.read_bytes() for path in Path().iterdir()} == before
    assert len(os.fsencode(told)) < 2000
