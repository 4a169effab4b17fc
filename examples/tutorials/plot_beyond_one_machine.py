"""
A table beyond one machine
==========================

**In a hurry?** The rows stay in the workers of a Dask cluster, and the model is that of one machine, bit by bit,
however many workers there are. Two words change: ``fit(table)`` in place of ``fit(X, y)``.

Why that is so: the sums of a pass over the rows are whole numbers. They come out the same in any order and in any
parts, and the noise is added to them once, at the driver.
"""

import hashlib
import tempfile
import time
import warnings
from itertools import pairwise
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
for part, (start, end) in enumerate(pairwise(cuts)):
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
print(f"in this process  {digest(here)}  {here.n_iter_} passes in {time.perf_counter() - start:.1f} s")

held = {}  # which worker holds which rows
for n_workers in (1, 2):
    with (
        LocalCluster(processes=False, n_workers=n_workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
        DaskTable.from_parquet(client, warehouse.name, target="bought", dtype="float64") as table,
    ):
        start = time.perf_counter()
        fitted = model().fit(table)
        where = f"on {n_workers} worker{'s' * (n_workers > 1)}"
        print(f"{where:<15}  {digest(fitted)}  ", end="")
        print(f"{fitted.n_iter_} passes in {time.perf_counter() - start:.1f} s; {table}")
        assert digest(fitted) == digest(here)
        held[n_workers] = [
            (table.partitions.worker_of(place), source.n_rows) for place, source in enumerate(table.partitions.sources)
        ]
warehouse.cleanup()

# %%
# The digests are equal: not nearly the same model, the same. Seconds say little here, where all workers share two
# processors with the driver; what many machines gain is measured in :doc:`the guide
# </guide/cluster>`.

print(fitted.guarantee_.statement())

# %%
# Who holds what
# --------------
#
# A partition is a piece of the table that one worker holds, whole. They are spread so that each worker has about as
# many rows; small files next to each other may be one partition. Rows never travel: what a worker sends in a pass is
# whole numbers, and no more of them for more rows.

figure, axes = plt.subplots(figsize=(7.5, 2.6), layout="constrained")
labels = []
for n_workers, parts in held.items():
    for number, worker in enumerate(sorted({worker for worker, _ in parts}), start=1):
        labels.append(f"worker {number} of {n_workers}")
        left = 0
        for place, (holder, n_rows) in enumerate(parts):
            if holder == worker:
                axes.barh(len(labels) - 1, n_rows, left=left, color=f"C{place}", edgecolor="white", height=0.7)
                axes.annotate(
                    f"{n_rows:,}" if n_rows >= 10_000 else "", (left + n_rows / 2, len(labels) - 1),
                    ha="center", va="center", color="white", fontsize=8,
                )  # fmt: skip
                left += n_rows
axes.set_yticks(range(len(labels)), labels)
axes.invert_yaxis()
axes.set(xlabel="rows; a colour is a partition", xlim=(0, len(customers)))
axes.xaxis.set_major_formatter("{x:,.0f}")
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# A worker that dies is replaced, and no row counts twice: :doc:`the proof
# </privacy/cluster>`, with about a thousand processes killed at random.
