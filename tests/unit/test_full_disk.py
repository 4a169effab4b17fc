"""Every writer, on a disk that is full and in a folder that cannot be written to: a clear error, nothing lost."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.preprocessing import Normalizer

import sottovoce as sv
from sottovoce.central.data import beside
from sottovoce.cli._output import write_or_keep
from sottovoce.estimators.persistence import save_model
from sottovoce.exceptions import ParameterError, SottovoceError
from sottovoce.local import Aggregator, Protocol, Randomizer
from sottovoce.local.collector.tokens import make_secret_file
from sottovoce.local.device.randomizer import DeviceStore
from sottovoce.local.device.survey import write_survey
from sottovoce.local.server.exports import write_reports
from sottovoce.report import make_key
from sottovoce.tables import ParquetTable
from support.forked import in_child, needs_fork

pytestmark = [needs_fork, pytest.mark.filterwarnings("ignore")]
rng = np.random.default_rng(0)
X = rng.uniform(-0.5, 0.5, (80, 30))
T = np.clip(X[:, 0], -1.0, 1.0)
PROTOCOL = Protocol(epsilon=2.0, n_features=4)
FEATURES = Protocol(epsilon=2.0, features=[sv.local.NumericFeature("age", 0, 1)])
DEVICE = Randomizer(PROTOCOL)
REPORTS = [DEVICE.report(np.zeros(4), 1) for _ in range(300)]


@pytest.fixture(scope="module")
def model():
    return sv.DPRidge(epsilon=1.0, delta=1e-5, data_norm=1.0, label_bounds=(-1, 1)).fit(X, T)


def aggregator():
    out = Aggregator(PROTOCOL)
    out.add(REPORTS)
    return out


def parquet(folder):
    source = folder.parent / "source.parquet"
    pq.write_table(pa.table({f"x{k}": X[:, k] for k in range(30)}), source)
    return ParquetTable(source)


def ledger(folder):
    book = sv.Ledger(f"sqlite:///{folder.parent / 'budget.db'}", who="x" * 2000)
    book.create("people", epsilon=10.0, delta=1e-5)
    return book


# name: (file that is written, what prepares, what writes); the preparation happens with room on the disk
WRITERS = {
    "model": ("m.json", lambda folder, model: model, lambda model, path: save_model(model, path)),
    "aggregator": ("a.bin", lambda *_: aggregator(), lambda made, path: made.save(path)),
    "reports": ("r.reports", lambda *_: None, lambda _, path: write_reports(path, REPORTS, PROTOCOL)),
    "Parquet reports": ("r.parquet", lambda *_: None, lambda _, path: write_reports(path, REPORTS, PROTOCOL)),
    "local model": ("l.json", lambda *_: aggregator().fit(), lambda made, path: made.save(path)),
    "memory map": ("x.npy", lambda folder, _: parquet(folder), lambda table, path: table.to_npy(path)),
    "ledger export": ("l.jsonl", lambda folder, _: ledger(folder), lambda book, path: book.export(path)),
}
each_writer = pytest.mark.parametrize("name", WRITERS)


@pytest.mark.parametrize("steps", [[], [("rows", Normalizer())], [("scaler", sv.DPScaler())]], ids=len)
def test_room_on_the_disk_is_asked_for_before_the_charge_alone(tmp_path, monkeypatch, steps):
    book, asked = ledger(tmp_path / "x"), []
    monkeypatch.setattr(beside, "check_room", lambda *_: asked.append(len(book.history("people"))))
    budget = {"epsilon": 1.0, "delta": 1e-6, "ledger": book, "dataset": "people"}
    own = {"solver": "sgd", "data_norm": 1.0, "label_bounds": (-1, 1)}
    model = sv.DPPipeline([*steps, ("model", sv.DPRidge(**own))], **budget) if steps else sv.DPRidge(**own, **budget)
    model.fit(parquet(tmp_path / "x"), T)
    assert len(asked) >= 1
    assert set(asked) == {0}


def in_words(work):
    """Return the error of ``work`` as text; anything but an error of ours or of the system is a bug."""
    try:
        work()
    except SottovoceError as error:
        return f"{error}".encode()
    except OSError as error:
        return f"{error.strerror} {error.filename}".encode()
    return b"written"


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@each_writer
@pytest.mark.parametrize("room", [0, 700])
def test_a_full_disk_keeps_the_old_file_and_leaves_nothing_else(name, room, tmp_path, model):
    file, prepare, write = WRITERS[name]
    folder = tmp_path / "out"
    folder.mkdir()
    path = folder / file
    prepared = prepare(folder, model)
    (path).write_bytes(b"old")
    said = in_child(lambda: in_words(lambda: write(prepared, path)), largest_file=room).decode()
    assert "File too large" in said
    assert file in said
    assert contents(folder) == {file: b"old"}
    path.unlink()
    in_child(lambda: in_words(lambda: write(prepared, path)), largest_file=room)
    assert contents(folder) == {}
    write(prepared, path)
    assert path.stat().st_size > 700


@each_writer
def test_a_place_that_cannot_be_written_to_is_named(name, tmp_path, model):
    file, prepare, write = WRITERS[name]
    (tmp_path / "out").mkdir()
    prepared = prepare(tmp_path / "out", model)
    (tmp_path / "no folder").write_text("a file")
    for parent in (tmp_path / "no folder", tmp_path / "missing", Path("/proc")):
        said = in_words(lambda parent=parent: write(prepared, parent / file)).decode()
        assert said != "written"
        assert str(parent) in said


def test_a_report_that_cannot_be_kept_is_not_sent(tmp_path):
    store = DeviceStore(tmp_path / "store")
    made = []

    def make():
        made.append(1)
        return DEVICE.report(np.zeros(4), 1)

    assert (
        "No report is sent" in in_child(lambda: in_words(lambda: store.once(PROTOCOL, make)), largest_file=0).decode()
    )
    assert contents(tmp_path) == {}
    (tmp_path / "file").write_text("")
    assert b"No report is made" in in_words(lambda: DeviceStore(tmp_path / "file" / "store").once(PROTOCOL, make))
    assert not made
    first = store.once(PROTOCOL, make)
    assert store.once(PROTOCOL, make) == first
    assert len(made) == 1


@pytest.mark.parametrize("make", [lambda path: make_secret_file(path, "token key"), make_key])
def test_a_key_is_made_whole_or_not_at_all(tmp_path, make):
    path = tmp_path / "key"
    said = in_child(lambda: in_words(lambda: make(path)), largest_file=10)
    assert f"{path}: cannot".encode() in said
    (tmp_path / "key.pub").symlink_to("nowhere")  # which nothing is written through
    with pytest.raises(ParameterError, match=r"key\.pub: the file exists"):
        make_key(path)
    assert contents(tmp_path) == {}
    (tmp_path / "key.pub").unlink()
    make(path)
    assert len(path.read_text().strip()) >= 32


def test_the_survey_page_is_whole_file_by_file(tmp_path):
    folder = tmp_path / "page"
    write_survey(FEATURES, folder)
    whole = contents(folder)
    said = in_child(lambda: in_words(lambda: write_survey(FEATURES, folder, overwrite=True)), largest_file=3000)
    assert b"File too large" in said
    assert contents(folder) == whole


def test_a_ledger_on_a_full_disk_refuses_the_charge_and_stays_whole(tmp_path):
    book = ledger(tmp_path / "out")
    address = f"sqlite:///{tmp_path / 'budget.db'}"
    model = sv.DPRidge(epsilon=1.0, delta=1e-5, data_norm=1.0, label_bounds=(-1, 1), ledger=address, dataset="people")

    def fit():
        model.fit(X, T)

    size = (tmp_path / "budget.db").stat().st_size
    said = in_child(lambda: in_words(fit), largest_file=size // 2)
    assert said != b"written"
    assert b"ledger" in said or b"budget.db" in said
    assert not hasattr(model, "coef_")
    assert book.verify().ok
    assert not book.history("people")
    model.fit(X, T)
    assert len(book.history("people")) == 1


def test_all_that_a_fit_paid_for_is_kept_when_the_disk_is_full(tmp_path, monkeypatch):
    """One file that is refused does not lose the others."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))
    (tmp_path / "no folder").write_text("a file")
    texts = {
        tmp_path / "no folder" / "a.json": "first",
        tmp_path / "b.json": "second",
        tmp_path / "no folder" / "c.json": "third",
    }
    with pytest.raises(SottovoceError) as caught:
        write_or_keep(texts)
    assert (tmp_path / "b.json").read_text() == "second"
    kept = {path.name: path for path in elsewhere.rglob("*.json")}
    assert {name: path.read_text() for name, path in kept.items()} == {"a.json": "first", "c.json": "third"}
    assert all(str(path) in str(caught.value) for path in kept.values())


def test_what_no_disk_takes_goes_to_stdout(tmp_path):
    def work():
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            said = in_words(lambda: write_or_keep({tmp_path / "a.json": "precious"}))
        return said + out.getvalue().encode()

    said = in_child(work, largest_file=0).decode()
    assert "written to stdout instead" in said
    assert said.endswith("precious")
    assert contents(tmp_path) == {}


def test_stdout_on_a_full_disk_ends_with_a_plain_error(tmp_path, model):
    if not Path("/dev/full").exists():
        pytest.skip("the system has no /dev/full")
    save_model(model, tmp_path / "model.json")
    done = subprocess.run(
        [sys.executable, "-m", "sottovoce", "show", str(tmp_path / "model.json")],
        stdout=os.open("/dev/full", os.O_WRONLY), stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "error: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
