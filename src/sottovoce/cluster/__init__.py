"""One table on many machines: its rows stay in the workers of a Dask cluster.

`DaskTable` is X of `fit`. Below it, from the rows to the driver: ``sources`` (where the rows of a partition come from),
``keeper`` (what holds partitions in a worker), ``dask_pool`` (where keepers live), ``partitions`` (which
keeper has which, rebuilt where one is lost), ``holder`` (the rows of one fit: each counts once).
"""

from typing import TYPE_CHECKING

from sottovoce._lazy import lazy_names

if TYPE_CHECKING:
    from sottovoce.cluster.table import DaskTable

__all__ = ["DaskTable"]

__getattr__ = lazy_names(__name__, {"DaskTable": "table"})
