"""The example runs as it stands: three models, one of them with a worker killed in the middle, and all the same."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("distributed")
EXAMPLE = Path(__file__).parents[2] / "examples" / "cluster.py"


@pytest.mark.slow
def test_the_example():
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    alone, _, whole, died, statement = done.stdout.splitlines()
    hashes = [re.search(r" ([0-9a-f]{12})\b", line)[1] for line in (alone, whole, died)]
    assert len(set(hashes)) == 1
    assert statement.startswith("(1, 1e-07)-differential privacy for one row of the table")
