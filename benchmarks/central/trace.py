"""What a warm default fit enters: distinct files and named functions of the library from ``fit`` to the receipt.

    python -m benchmarks.central.trace [--list]

Counted is the third fit of one process, each on a table and with a seed of its own, so that nothing warns. Lambdas,
comprehensions and the bodies of modules are no named functions, and compiled kernels are not entered from Python.
"""

import sys
import threading
from collections import defaultdict
from pathlib import Path
from types import CodeType

import numpy as np

import sottovoce as sv
from benchmarks.driver import benchmark, option

LIBRARY = Path(sv.__file__).parent
UNNAMED = {"<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<module>"}


def fit_to_receipt(seed: int) -> sv.Guarantee:
    """Return the receipt of one fit as a user makes it."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((2_000, 5))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(rng.random(len(X)) < 0.5, 1.0, -1.0)
    model = sv.DPLogisticRegression(epsilon=1.0, delta=1e-5, data_norm=1.0, classes=[-1.0, 1.0], random_state=seed)
    return model.fit(X, y).guarantee_


def entered(task) -> set[CodeType]:
    """Return the code objects of the library that a task enters, in this thread and in those that it starts."""
    found: set[CodeType] = set()

    def note(frame, event, argument):
        if event == "call":
            found.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        task()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {code for code in found if Path(code.co_filename).is_relative_to(LIBRARY)}


@benchmark(list=option(False, help="print the functions, file by file"))
def main(run) -> None:
    for seed in range(2):
        fit_to_receipt(seed)
    files = defaultdict(set)
    for code in entered(lambda: fit_to_receipt(2)):
        names = files[Path(code.co_filename).relative_to(LIBRARY).as_posix()]
        if code.co_name not in UNNAMED:
            names.add((code.co_firstlineno, code.co_qualname))
    if run.list:
        for file, names in sorted(files.items()):
            print(f"{file} ({len(names)})", *(f"    {line}: {name}" for line, name in sorted(names)), sep="\n")
    rows = [("files", len(files)), ("named functions", sum(map(len, files.values())))]
    run.table("entered by a warm default fit, up to its receipt", ("what", "number"), rows)
