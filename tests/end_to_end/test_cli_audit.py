"""The audit from the command line: exit codes, the report, wrong use."""

import json
import re
from pathlib import Path

import pytest

from support import commands

SOURCE = """\
import numpy as np
class Model:
    def __init__(self, scale=1.0, random_state=None):
        self.scale, self.random_state = scale, random_state
    def get_params(self, deep=True):
        return {"scale": self.scale, "random_state": self.random_state}
    def set_params(self, random_state):
        self.random_state = random_state
    def fit(self, X, y):
        noise = np.random.default_rng(self.random_state).laplace(0, self.scale, X.shape[1])
        self.coef_ = y @ X + noise
        return self
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    (tmp_path / "somebody.py").write_text(SOURCE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def call(*more):
        effort = ["--runs", "200", "--pilot", "100"]
        common = ["audit", "model", "--estimator", "somebody.Model", "--epsilon", "1", *effort]
        return commands.run(*common, *more)

    return call


def test_a_violation_has_an_exit_code_of_its_own_and_a_report(run, tmp_path):
    out = tmp_path / "report.json"
    options = ["--data-norm", 1, "--classes", "-1,1", "--parameters", '{"scale": 0.1, "random_state": 0}', "--out", out]
    result = run(*options)
    assert result.exit_code == 3, result.output
    assert "VIOLATED" in result.stdout
    assert "pilot 1 of 16" in result.stderr
    report = json.loads(Path(out).read_text())
    assert report["violated"] is True
    assert report["lower_bound"] > 1.0
    assert run(*options).exit_code == 2  # the file is there
    assert re.search("exists", run(*options).stderr)


def test_a_sound_one_passes(run):
    result = run("--data-norm", 1, "--classes", "-1,1", "--parameters", '{"scale": 2.0, "random_state": 0}', "--quiet")
    assert result.exit_code == 0, result.output
    assert "not refuted" in result.stdout
    assert result.stderr == ""


def test_an_estimator_that_fails_is_told(run):
    result = run("--data-norm", "1", "--classes", "-1,1", "--parameters", '{"size": 1}', "--quiet")
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error: ")
    assert "failed under" in result.stderr
