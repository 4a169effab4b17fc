"""Measured claims, one script each; run from the root of the repository: ``python -m benchmarks.central.accuracy``."""

import sys
from pathlib import Path

# the helpers that tests and benchmarks share are the package ``support`` of tests/
sys.path.append(str(Path(__file__).parents[1] / "tests"))
