"""Dask on this machine for tests: a scheduler, workers, and a client of them."""

from collections.abc import Iterator
from contextlib import contextmanager

from distributed import Client, LocalCluster


@contextmanager
def dask_workers(n_workers: int = 2, *, processes: bool = False, **options: object) -> Iterator[Client]:
    """Start workers of one thread each, as threads of this process or as processes, and stop them at the end."""
    with (
        # the port of the scheduler's pages must be any: another test may run at the same time
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=processes, dashboard_address=":0", **options
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client
