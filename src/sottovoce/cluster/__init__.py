"""One table on many machines: its rows stay in the workers of a Dask cluster.

`DaskTable` is X of `fit`; `EncodedTable` is one through a schema; `connected` is a checked way to a cluster. Below it, from the rows to the driver: ``sources`` (where the rows of a partition come from),
``keeper`` (what holds partitions in a worker), ``pool`` and ``dask_pool`` (where keepers live), ``partitions`` (which
keeper has which, rebuilt where one is lost), ``holder`` (the rows of one fit: each counts once), ``log`` (what was
released).
"""

from typing import TYPE_CHECKING

from sottovoce._lazy import lazy_names

if TYPE_CHECKING:
    from sottovoce.cluster.connecting import connected
    from sottovoce.cluster.encoded import EncodedTable
    from sottovoce.cluster.table import DaskTable

__all__ = ["DaskTable", "EncodedTable", "connected"]

__getattr__ = lazy_names(__name__, {"DaskTable": "table", "EncodedTable": "encoded", "connected": "connecting"})
