"""The example in FLARE's own terms: a job folder that FLARE's simulator runs, and a receipt that verifies."""

import subprocess
import sys
from pathlib import Path

import pytest

from sottovoce.report import verify_receipt

pytest.importorskip("nvflare")
pytest.importorskip("statsmodels")
JOB = Path(__file__).parents[2] / "examples" / "flare"


def test_a_job_folder_trains_over_columns(tmp_path):
    nvflare = Path(sys.executable).with_name("nvflare")
    done = subprocess.run(
        [nvflare, "simulator", JOB, "-w", tmp_path, "-c", "bank,employer", "-t", "2"],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert "trained with bank, employer: (1, 1e-06)-differential privacy for one person" in done.stdout + done.stderr
    (receipt,) = tmp_path.rglob("receipt.json")
    assert verify_receipt(receipt).passed
