"""
A table beyond one machine
==========================

**In a hurry?** The rows stay in the workers of a Dask cluster, and the model is that of one machine, bit by bit, however
many workers there are. Two words change: ``fit(table)`` in place of ``fit(X, y)``.

Why that is so: the sums of a pass over the rows are whole numbers. They come out the same in any order and in any parts,
and the noise is added to them once, at the driver.
"""

import hashlib
import tempfile
import time
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster

import sottovoce as sv
from sottovoce.cluster import DaskTable
from sottovoce.exceptions import PrivacyWarning

# %%
# A table in parts
# ----------------
#
# 120,000 made-up customers in six Parquet files of unequal size, as a warehouse would have them.

warnings.simplefilter("ignore", PrivacyWarning)  # one table is fitted several times on purpose
names = ["age", "income", "visits", "distance"]
rng = np.random.default_rng(0)
customers = pd.DataFrame(rng.uniform(-1, 1, (120_000, 4)), columns=names)
customers["bought"] = customers @ [1.0, 2.0, -1.0, 0.5] + rng.normal(0, 0.5, 120_000) > 0

warehouse = tempfile.TemporaryDirectory()
cuts = np.cumsum([0, 35_000, 10_000, 25_000, 5_000, 30_000, 15_000])
for part, (start, end) in enumerate(zip(cuts[:-1], cuts[1:], strict=True)):
    customers[start:end].to_parquet(Path(warehouse.name) / f"customers-{part}.parquet")
print(sorted(path.name for path in Path(warehouse.name).iterdir()))

# %%
# The same model, three times
# ---------------------------
#
# The random state is there to compare models: leave it out for noise that protects somebody. The workers are threads of
# this process, so that this page builds anywhere. ``examples/cluster.py`` has workers that are processes, and kills one
# of them in the middle of a fit.


def model():
    """Return an estimator that has not seen a row."""
    return sv.DPLogisticRegression(
        epsilon=1.0, delta=1e-7, data_norm=2.0, classes=[False, True], solver="scd", random_state=0
    )


def digest(fitted):
    """Return a few digits that tell models apart."""
    return hashlib.sha256(fitted.coef_.tobytes() + fitted.intercept_.tobytes()).hexdigest()[:12]


start = time.perf_counter()
here = model().fit(customers[names], customers["bought"])
seconds = {"in this process": time.perf_counter() - start}
digests = {"in this process": digest(here)}
rows = {}
for n_workers in (1, 2):
    name = f"{n_workers} worker" + "s" * (n_workers > 1)
    with (
        LocalCluster(processes=False, n_workers=n_workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
        DaskTable.from_parquet(client, warehouse.name, target="bought", dtype="float64") as table,
    ):
        start = time.perf_counter()
        fitted = model().fit(table)
        seconds[name], digests[name] = time.perf_counter() - start, digest(fitted)
        print(repr(table))

for name, digits in digests.items():
    print(f"{name:<16} {digits}  {seconds[name]:.1f} s, {fitted.n_iter_} passes")
assert len(set(digests.values())) == 1
print(fitted.guarantee_.statement())
