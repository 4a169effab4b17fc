"""What `pip install sottovoce` alone gives: everything on arrays; what needs an extra names it, in one line."""

import subprocess
import sys

import pytest

from support.schemas import schema_text

pytestmark = pytest.mark.slow  # processes of their own; `make oldest` and `make matrix` run them too

# as if the libraries that extras bring, and data frames, were not installed
ALONE = """\
import importlib.util, sys
from contextlib import suppress
find_spec = importlib.util.find_spec
def found(*asked):
    with suppress(ModuleNotFoundError):
        return find_spec(*asked)
importlib.util.find_spec = found
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pandas", "polars", "pyarrow", "sqlalchemy", "cryptography", "dask", "starlette"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
"""

ON_ARRAYS = """\
import warnings
import numpy as np
import scipy.sparse as sp
import sottovoce as sv
from sottovoce import vertical
from sottovoce.local import Protocol, Randomizer
from sottovoce.vertical.requests import identifiers
warnings.simplefilter("ignore", sv.exceptions.PrivacyWarning)
X = np.random.default_rng(0).uniform(-0.5, 0.5, (300, 3))
y = (X[:, 0] > 0).astype(int)
budget = {"epsilon": 1.0, "delta": 1e-4}
model = sv.DPLogisticRegression(**budget, data_norm=1.0, classes=[0, 1])
assert "numba" not in sys.modules, "loaded before a fit"
for rows in (X, X.astype(np.float32), sp.csr_array(X), X.tolist()):
    assert len(model.fit(rows, y).predict(rows)) == 300
people = np.array([None, *["abc"[k % 3] + str(k) for k in range(299)]], object)
sv.DPRidge(**budget, data_norm=1.0, label_bounds=(-1, 1), max_rows_per_group=1).fit(X, X[:, 1], groups=people)
last = sv.DPLogisticRegression(data_norm=1.0, classes=[0, 1])
sv.DPPipeline([("scale", sv.DPScaler()), ("model", last)], **budget).fit(X, y)
found = sv.evaluate(model, X, y, epsilon=1.0, delta=1e-4)
sv.save_model(model, "model.json")
assert np.array_equal(sv.load_model("model.json")[0].predict(X), model.predict(X))
parties = vertical.split_columns(X, [2, 1], data_norm={"party1": 0.8, "party2": 0.5})
vertical.VerticalLogisticRegression(**budget, classes=[0, 1]).fit(parties, y)
assert len(Randomizer(Protocol(n_features=3, epsilon=2.0)).report(X[0], 1)) >= 22
try:
    sv.SchemaEncoder({"a": (0, 1)}).transform(X[:, :1])
except sv.exceptions.ParameterError as error:
    print(error)
assert not {"pandas", "pyarrow"} & set(sys.modules)
"""


def alone(program, folder):
    command = [sys.executable, "-W", "ignore", "-c", ALONE + program]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def command_lines(folder, lines):
    """Run commands one after the other in a process without extras; return what each says, and with what it ends."""
    program = f"""
from sottovoce.cli import main
for line in {list(lines)!r}:
    sys.argv = ["sottovoce", *line.split()]
    try:
        main()
    except SystemExit as end:
        print(f"\\n{{end.code or 0}}", end="\\0", file=sys.stderr)
"""
    done = alone(program, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, [said.rpartition("\n") for said in done.stderr.split("\0")[:-1]]


def test_everything_on_arrays(tmp_path):
    done = alone(ON_ARRAYS, tmp_path)
    assert done.returncode == 0, done.stderr
    assert 'pyarrow, which is not installed: pip install "sottovoce[tables]"' in done.stdout


NEEDS = {
    "schema people.csv": "tables",
    "schema people.parquet": "tables",
    "fit people.csv --schema s.toml --model logistic --epsilon 1 --delta 0.1 --out m": "tables",
    "ledger show --ledger sqlite:///budget.db": "ledger",
    "local tokens missing.json --key k --count 1": "collector",
    "receipt key --out officer.key": "sign",
}


def test_a_command_names_the_extra_it_needs(tmp_path):
    (tmp_path / "people.csv").write_text("age,ill\n17,no\n80,yes\n")
    (tmp_path / "people.parquet").write_bytes(b"PAR1")
    (tmp_path / "s.toml").write_text(schema_text("ill", "confirmed = true\n", age=(0, 100), ill=["no", "yes"]))
    _, said = command_lines(tmp_path, NEEDS)
    for (words, _, code), (command, extra) in zip(said, NEEDS.items(), strict=True):
        (line,) = words.splitlines()
        assert line.startswith("error: ") and f"sottovoce[{extra}]" in line and code == "2", (command, words)


def test_the_help_of_every_command_needs_no_extra(tmp_path):
    commands = ("fit", "predict", "evaluate", "show", "plan", "schema", "receipt", "ledger", "compile")
    shown, said = command_lines(tmp_path, ["--help", *(f"{command} --help" for command in commands)])
    assert said == [("", "\n", "0")] * 10
    assert all(f"sottovoce {command} " in shown for command in commands) and "schema" in shown


# what systems that are not POSIX lack
NOT_POSIX = """\
import os
class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name in {"fcntl", "resource", "pwd", "grp"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
import multiprocessing, ssl, subprocess, tempfile  # these have ways of their own
for name in ("fcntl", "resource", "pwd", "grp"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Lacking())
del os.getuid, os.register_at_fork, os.sched_getaffinity, os.posix_fallocate, os.fdatasync
"""


def test_whoever_needs_no_posix_imports_none(tmp_path):
    program = """
from importlib import import_module
rooms = "estimators", "evaluation", "forecasting", "ledger", "local", "vertical.party.party", "tables", "report", "cli"
for room in rooms:
    import_module("sottovoce." + room)
from sottovoce.vertical.flare.hardening.closed import require_engine
try:
    require_engine()
except ValueError as error:
    print(error)
import sottovoce as sv
model = sv.DPRidge(epsilon=1.0, delta=1e-4, data_norm=2.0, label_bounds=(-1, 1))
print(model.fit([[0.1, 0.2], [0.3, -0.4]] * 50, [0.1, -0.3] * 50).coef_.shape)
"""
    done = alone(NOT_POSIX + program, tmp_path)
    assert done.returncode == 0, done.stderr
    refusal, shape = done.stdout.splitlines()
    assert "need Linux or another POSIX system" in refusal
    assert shape == "(2,)"
