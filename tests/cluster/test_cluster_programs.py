"""The example and the first block of the guide, as programs: workers are processes that import them again."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("distributed")
ROOT = Path(__file__).parents[2]


def printed_by(program, folder):
    command = [sys.executable, program]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_example_has_three_models_alike_one_of_them_with_a_worker_killed(tmp_path):
    alone, _, whole, died, statement = printed_by(ROOT / "examples" / "cluster.py", tmp_path).splitlines()
    assert len({re.search(r" ([0-9a-f]{12})\b", line)[1] for line in (alone, whole, died)}) == 1
    assert statement.startswith("(1, 1e-07)-differential privacy for one row of the table")


def test_the_first_block_of_the_guide_prints_what_it_says(tmp_path):
    text = (ROOT / "docs" / "guide" / "cluster.md").read_text(encoding="utf-8")
    code, printed = re.search(r"```python\n(.*?)```.*?```\n(.*?)```", text, re.DOTALL).groups()
    (tmp_path / "laptop.py").write_text(code, encoding="utf-8")
    assert printed_by("laptop.py", tmp_path) == printed
