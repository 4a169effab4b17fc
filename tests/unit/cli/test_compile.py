"""`sottovoce compile`: afterwards no first fit compiles."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import sottovoce as sv
from sottovoce.cli import app

command = importlib.import_module("sottovoce.cli.compile")

FIRST_FITS = """\
import numpy as np, scipy.sparse as sp, warnings
import sottovoce as sv
from sottovoce.exceptions import PrivacyWarning
warnings.simplefilter("ignore", PrivacyWarning)
raw = np.random.default_rng(1).uniform(-0.5, 0.5, (500, 7))
budget = {"epsilon": 2.0, "delta": 1e-5}
for X in (raw, raw.astype(np.float32), sp.csr_array(raw)):
    y = (raw[:, 0] > 0).astype(int)
    for kind in (sv.DPLogisticRegression, sv.DPLinearSVC):
        kind(**budget, data_norm=1.0, classes=[0, 1]).fit(X, y).predict(X)
    sv.DPRidge(**budget, data_norm=1.0, label_bounds=(-1, 1)).fit(X, raw[:, 1]).predict(X)
"""


def test_it_tells_where_the_code_is(monkeypatch):
    X = np.eye(3)
    model = sv.DPRidge(epsilon=1.0, delta=1e-4, data_norm=1.0, label_bounds=(0, 1))
    monkeypatch.setattr(command, "_trainings", lambda: [(model.fit, X, X[:, 0]), (model.fit, X, X[:, 0])])
    done = CliRunner().invoke(app, ["compile"])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("Compiled in ")
    assert done.stdout.endswith(f"MB in {command.FOLDER}\n")
    assert not done.stderr  # no warning of a second fit on one table


def test_without_a_place_it_names_the_remedy(monkeypatch):
    monkeypatch.setattr(command, "FOLDER", None)
    done = CliRunner().invoke(app, ["compile"])
    assert done.exit_code == 2
    assert "Set NUMBA_CACHE_DIR" in done.stderr


@pytest.mark.slow
def test_afterwards_no_first_fit_compiles(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-m", "sottovoce", "compile"], env=environment, check=True, timeout=900)
    before = {path for path in Path(tmp_path).rglob("*.nbc") if "sottovoce" in str(path)}
    assert before
    subprocess.run([sys.executable, "-c", FIRST_FITS], env=environment, check=True, timeout=900)
    assert {path for path in Path(tmp_path).rglob("*.nbc") if "sottovoce" in str(path)} == before
