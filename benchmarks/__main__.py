"""Run all benchmark scripts; ``--quick`` takes small sizes and few seeds. Each prints a table and writes JSON."""

import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from support.data import data_folder, why_without

quick = "--quick" in sys.argv
here = Path(__file__).parent
jobs = [
    ["speed.py", *(["--quick", "--no-peers"] if quick else [])],
    ["out_of_core.py", *(["--quick"] if quick else [])],
    ["intervals.py", *(["--fits", "20", "--largest", "10000"] if quick else [])],
    ["ledger_crashes.py", *(["--quick"] if quick else [])],
    ["audit_table.py", *(["--only", "Gaussian on a grid,exponential mechanism"] if quick else [])],
    ["grey_box.py", *(["--budget", "60"] if quick else [])],
    ["alignment.py", *(["--quick"] if quick else [])],
    ["local_reports.py", *(["--quick"] if quick else [])],
    ["local_javascript.py", *(["--quick"] if quick else [])],
    ["block_frank_wolfe.py", *(["--quick"] if quick else [])],
    ["local_collector.py", *(["--quick"] if quick else [])],
    ["vertical_scale.py", *(["--quick"] if quick else [])],
    ["vertical_frank_wolfe.py", *(["--quick"] if quick else [])],
    ["vertical_uplink.py", *(["--quick"] if quick else [])],
    ["local_paper.py", *(["--quick"] if quick else [])],
    ["local_speed.py", *(["--quick"] if quick else [])],
    ["local_learning.py", "--only", "synthetic,wire", *(["--quick"] if quick else [])],
    ["ridge_solvers.py", "--only", "synthetic", *(["--seeds", "1", "--sizes", "1000"] if quick else [])],
]
if data_folder() is not None:
    jobs.append(["accuracy.py", "--seeds", "3" if quick else "10", *(["--only", "a9a,phishing"] if quick else [])])
    jobs.append(["figures.py", *(["--quick"] if quick else [])])
    jobs.append(["vertical_flaws.py", *(["--only", "a9a"] if quick else [])])
    jobs += [] if quick else [["vertical_conditions.py"]]
    jobs.append(["vertical_noisy.py", *(["--seeds", "1", "--alpha", "1"] if quick else [])])
    jobs.append(["vertical_convergence.py", *(["--quick"] if quick else [])])
    jobs.append(["vertical_noise_levels.py", *(["--quick"] if quick else [])])
    jobs.append(["vertical_private.py", *(["--quick"] if quick else [])])
    jobs.append(["local_learning.py", "--only", "a9a,blogfeedback", *(["--quick"] if quick else [])])
else:
    print(f"{why_without()}: the benchmarks on it are skipped")
for job in jobs:
    subprocess.run([sys.executable, str(here / job[0]), *job[1:]], check=True)
