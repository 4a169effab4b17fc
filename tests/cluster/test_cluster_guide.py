"""The first block of the guide, as a file that is run: workers are processes that import it again."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("distributed")
PAGE = Path(__file__).parents[2] / "docs" / "guide" / "cluster.md"


@pytest.mark.slow
def test_the_first_block_is_a_program(tmp_path):
    text = PAGE.read_text(encoding="utf-8")
    code, printed = re.search(r"```python\n(.*?)```.*?```\n(.*?)```", text, re.DOTALL).groups()
    (tmp_path / "laptop.py").write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "laptop.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == printed
