"""``sottovoce fit --cluster``: the same model as on one machine, and every wrong use with its message."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from sottovoce import Guarantee
from sottovoce.cli import _cluster
from sottovoce.estimators.persistence import load_model
from sottovoce.ledger import Ledger
from support import commands
from support.commands import incomes, run
from support.schemas import schema_text

distributed = pytest.importorskip("distributed")

SCHEMA = schema_text("income", age=(17, 90), work=["private", "state"], income=["low", "high"])
N_ROWS = 3000


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(n_workers=2, processes=False, protocol="tcp", dashboard_address=":0") as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    incomes(N_ROWS).assign(id=np.arange(N_ROWS)).to_parquet("people.parquet", row_group_size=250)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return tmp_path


def fit(*arguments, table="people.parquet", model="svm"):
    asked = ("--schema", "schema.toml", "--model", model, "--epsilon", 1, "--delta", "1e-5", "--random-state", 3)
    return run("fit", table, *asked, *arguments)


def passes(*arguments, **settings):
    result = fit(*arguments, **settings)
    assert result.exit_code == 0, result.output
    return result


def refused(*arguments, **settings):
    result = fit("--out", "none.json", *arguments, **settings)
    assert result.exit_code == 2, result.output
    first, *more = result.stderr.strip().split("\n")
    assert all(line.startswith("Charge ") for line in more)
    return first.removeprefix("error: ")


def weights(path):
    model, _ = load_model(path)
    return model.coef_.tolist(), model.intercept_.tolist()


@pytest.mark.parametrize("model", ["svm", "logistic"])
def test_the_model_is_that_of_one_machine(cluster, folder, model):
    passes("--out", "here.json", model=model)
    result = passes("--out", "there.json", "--cluster", cluster, model=model)
    assert weights(folder / "here.json") == weights(folder / "there.json")
    here, there = (Guarantee.from_json((folder / f"{name}.receipt.json").read_text()) for name in ("here", "there"))
    assert here.statement() == there.statement()
    assert here.model == there.model
    assert "there.receipt.json" in result.output
    commands.passes("predict", "there.json", "people.parquet", "--score", "--out", "predicted.csv")


def test_the_cut_is_a_matter_of_taste(cluster, folder):
    (folder / "parts").mkdir()
    table = pd.read_parquet("people.parquet")
    for number, part in enumerate(np.array_split(np.arange(N_ROWS), 3)):
        table.iloc[part].to_parquet(f"parts/{number}.parquet", row_group_size=100)
    passes("--out", "one.json", "--cluster", cluster, "--partitions", 1)
    passes("--out", "many.json", "--cluster", cluster, "--partitions", 7, table=f"file://{folder}/parts")
    assert weights(folder / "one.json") == weights(folder / "many.json")


def test_a_cell_that_breaks_the_schema_is_told_after_the_charge(cluster, folder):
    table = pd.read_parquet("people.parquet")
    table.loc[2600, "work"] = "sailor"
    table.to_parquet("people.parquet", row_group_size=250)
    ledger = Ledger("sqlite:///book.db")
    ledger.create("people", epsilon=5.0, delta=1e-3, adjacency="zero-out", allow_nonprivate=True)  # for the seed
    said = refused("--cluster", cluster, "--ledger", "sqlite:///book.db", "--dataset", "people")
    assert "people.parquet, row 2601, column 'work': 'sailor' is not" in said
    assert ledger.spent("people")[0] > 0.5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--holdout", 0.2, "--holdout-out", "x.parquet"), "--holdout is not for a table on a cluster"),
        (("--no-header",), "--header is not for a table on a cluster"),
        (("--format", "csv"), "--format is not for a table on a cluster"),
        (("--partitions", 0), "--partitions must be a whole number"),
        (("--tls-ca", "none.pem"), "--tls-ca none.pem: there is no such file"),
        (("--model", "sparse-logistic", "--radius", 1), "--model sparse-logistic is not for a table on a cluster"),
    ],
)
def test_what_does_not_go_together_is_refused(folder, arguments, said):
    assert said in refused("--cluster", "tcp://127.0.0.1:9", *arguments)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("-", "TABLE -: workers cannot read this machine's pipe"),
        ("people.csv", "TABLE people.csv: workers read Parquet"),
        ("s3://bucket/people.csv.gz", "TABLE s3://bucket/people.csv.gz: workers read Parquet"),
        ("people.svm", "people.svm: LIBSVM text has no named columns"),
    ],
)
def test_tables_that_workers_do_not_read(folder, table, said):
    assert refused("--cluster", "tcp://127.0.0.1:9", table=table).startswith(said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--partitions", 3), "--partitions is for a cluster: give --cluster ADDRESS too."),
        (("--in-clear",), "--in-clear is for a cluster: give --cluster ADDRESS too."),
    ],
)
def test_options_of_a_cluster_without_one(folder, arguments, said):
    assert refused(*arguments) == said


def test_addresses_without_a_cluster(folder):
    assert refused(table="s3://bucket/people").startswith("TABLE s3://bucket/people: workers of a cluster read such")


def test_clusters_that_cannot_be_used(cluster, folder, monkeypatch):
    from sottovoce.cluster import connecting

    assert "neither HOST:PORT of a scheduler nor a file" in refused("--cluster", "nowhere")
    said = refused("--cluster", "tls://127.0.0.1:9")
    assert "--tls-ca" in said
    assert "tls_ca" not in said
    monkeypatch.setattr(connecting, "_is_overheard", lambda place: True)
    assert refused("--cluster", cluster).endswith("accept a network that nobody else reaches with --in-clear.")
    passes("--out", "accepted.json", "--cluster", cluster, "--in-clear")


def test_a_schema_with_a_unit(cluster, folder):
    text = SCHEMA.replace('target = "income"', 'target = "income"\nunit = "id"\nmax_rows_per_unit = 2')
    (folder / "schema.toml").write_text(text)
    said = refused("--cluster", cluster)
    assert "--max-rows-per-unit must be 1 for solver='scd' and a table on a cluster" in said and "is private" in said
    for name, where in (("here", ()), ("there", ("--cluster", cluster))):
        passes("--out", f"{name}.json", *where, "--solver", "newton")
    assert weights(folder / "here.json") == weights(folder / "there.json")


def test_a_worker_that_was_lost_is_told_once(capsys):
    partitions = SimpleNamespace(n_rebuilt=0)
    holder = SimpleNamespace(partitions=partitions, status=lambda: "on 1 worker, 3 partitions rebuilt")
    told = _cluster._tell_losses()
    told(holder)
    assert capsys.readouterr().err == ""
    partitions.n_rebuilt = 3
    told(holder)
    told(holder)
    assert capsys.readouterr().err == (
        "note: a worker was lost, and its partitions were rebuilt: now on 1 worker, 3 partitions rebuilt\n"
    )
