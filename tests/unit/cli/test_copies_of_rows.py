"""Are files with rows or with exact scores ever more open than the table they come from, also after a kill?"""

import itertools
import json
import os
import signal
import stat
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sottovoce import _files
from sottovoce._files import whole_file
from sottovoce.cli.app import app
from sottovoce.cli.vertical import train as vertical_predict
from sottovoce.local import Aggregator, Protocol, Randomizer
from sottovoce.tables import ParquetTable
from support.pairs import by_pairs
from support.schemas import schema_text

SCHEMA = schema_text("sick", "confirmed = true\n", age=(0, 100), sick=["no", "yes"])
FIT = "fit people.csv --schema s.toml --model logistic --epsilon 1 --delta 1e-5 --quiet --force --out"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("rows")
    ages = np.random.default_rng(0).integers(0, 100, 300)
    (place / "people.csv").write_text("age,sick\n" + "".join(f"{age},{'yes' if age > 50 else 'no'}\n" for age in ages))
    (place / "s.toml").write_text(SCHEMA)
    pq.write_table(pa.table({"a": ages / 100.0, "b": ages / 200.0}), place / "people.parquet")
    protocol = Protocol(epsilon=4.0, n_features=1)
    (place / "records.csv").write_text("x\n" + "".join(f"{age / 200}\n" for age in ages))
    device, sums = Randomizer(protocol), Aggregator(protocol)
    sums.add([device.report([age / 200], 1 if age > 50 else -1) for age in ages])
    sums.fit().save(place / "local.json")
    here = Path.cwd()
    os.chdir(place)
    try:
        run(f"{FIT} model.json")
    finally:
        os.chdir(here)
    return place


def run(command):
    result = CliRunner().invoke(app, command.split())
    assert result.exit_code == 0, result.output


def scored_over_sites():
    """Run `vertical predict` with sites that have answered."""
    runs = Path.cwd() / "runs"
    (runs / "0123456789ab").mkdir(parents=True, exist_ok=True)
    (runs / "0123456789ab" / "predictions.csv").write_text("id,score\nann,0.25\n")
    spec = SimpleNamespace(purpose="train", model="logistic", run="0123456789ab", write=lambda runs: None)
    state = {"people": 1, "bytes_up": 8, "comparison": None}
    with pytest.MonkeyPatch.context() as patch:
        for name, stand_in in {
            "Kit": SimpleNamespace(open=lambda *given: SimpleNamespace(runs=runs, site_file="s", name="n")),
            "Site": SimpleNamespace(read=lambda home: SimpleNamespace(scoring_table="t")),
            "find_run": lambda runs, run: run,
            "RunSpec": type("Spec", (), {"read": lambda folder: spec, "__new__": lambda cls, **given: spec}),
            "open_home": lambda *given, **more: None,
            "do_run": lambda *given, **more: state,
        }.items():
            patch.setattr(vertical_predict, name, stand_in)
        run("vertical predict kit 0123456789ab --out out.csv --force")


WRITERS = {
    "rows set aside": ("people.csv", lambda: run(f"{FIT} m.json --holdout 0.3 --holdout-out out.csv")),
    "predictions": ("people.csv", lambda: run("predict model.json people.csv --proba --out out.csv --force")),
    "predictions from reports": (
        "records.csv", lambda: run("local predict local.json records.csv --out out.csv --force"),
    ),
    "a draft of a schema": ("people.csv", lambda: run("schema people.csv --target sick --out out.csv --force")),
    "predictions over sites": ("people.csv", scored_over_sites),
    "a table decoded": ("people.parquet", lambda: ParquetTable("people.parquet").to_npy("out.csv")),
}  # fmt: skip


MODES, UMASKS, BEFORE = (0o600, 0o640, 0o644), (0o022, 0o000, 0o077), (None, 0o644, 0o600)
# every mode under every umask, of every second writer in turn; what stood there before takes turns too
CASES = [
    (name, MODES[i], UMASKS[j], BEFORE[(i + 2 * j + k) % 3])
    for k, name in enumerate(WRITERS) for i in range(3) for j in range(3) if (i + j + k) % 2 == 0
]  # fmt: skip


@pytest.mark.parametrize(("name", "mode", "umask", "before"), CASES)
def test_no_copy_is_more_open_than_its_source(folder, monkeypatch, name, mode, umask, before):
    monkeypatch.chdir(folder)
    source, write = WRITERS[name]
    out = Path("out.csv")
    out.unlink(missing_ok=True)
    if before is not None:
        out.touch()
        out.chmod(before)
    Path(source).chmod(mode)
    old = os.umask(umask)
    try:
        write()
    finally:
        os.umask(old)
        Path(source).chmod(0o644)
    assert out.stat().st_size > 8
    assert stat.S_IMODE(out.stat().st_mode) & ~mode == 0
    assert not [left for left in Path().iterdir() if left.name.startswith(".")]


def killed_at(place, path, *, unnamed):
    """Write a file in a child that is killed at its step of that number; tell whether it was killed."""
    child = os.fork()
    if child == 0:  # pragma: no cover
        steps = itertools.count(1)

        def step(call):
            def counted(*given, **more):
                if next(steps) == place:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*given, **more)

            return counted

        try:
            if not unnamed:
                del os.O_TMPFILE
            for name in ("open", "fdopen", "fsync", "link"):
                setattr(_files.os, name, step(getattr(os, name)))
            for name in ("chmod", "replace"):
                setattr(Path, name, step(getattr(Path, name)))
            os.umask(0)
            with whole_file(path, private=True) as file:
                for _ in range(3):
                    step(file.write)(b"a row\n")
                    file.flush()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize(("unnamed", "before"), by_pairs([True, False], [None, b"old"]))
def test_a_kill_at_any_step_leaves_no_open_copy(tmp_path, unnamed, before):
    if unnamed and not hasattr(os, "O_TMPFILE"):
        pytest.skip("this system has no files without a name")
    path = tmp_path / "rest.csv"
    kept = []
    for place in itertools.count(1):
        for each in tmp_path.iterdir():
            each.unlink()
        if before is not None:
            path.write_bytes(before)
            path.chmod(0o644)
        killed = killed_at(place, path, unnamed=unnamed)
        copies = [each for each in tmp_path.iterdir() if b"row" in each.read_bytes()]
        assert all(stat.S_IMODE(each.stat().st_mode) == 0o600 for each in copies)
        if not killed:
            assert copies == [path]
            break
        kept.append(len(copies))
    assert place > 7
    # without a name only the two steps between the whole file's name and its place are left
    assert sum(kept) <= (2 if unnamed else len(kept))


def test_secrets_of_an_interrupted_run_are_never_open(tmp_path):
    with whole_file(tmp_path / "facts.json", private=True) as file:
        file.write(json.dumps({}).encode())
    assert stat.S_IMODE((tmp_path / "facts.json").stat().st_mode) == 0o600
