"""Connect to who adds up: a Dask or a Spark cluster, by its address."""

from __future__ import annotations

from privod.engines.dask_cluster import DaskCluster
from privod.engines.source import Engine
from privod.engines.spark_cluster import SparkCluster


def connected(address: str) -> Engine:
    """The engine at an address, or one that is started on this machine."""
    spark = address.startswith(("sc:", "spark:"))
    return SparkCluster.open(address) if spark else DaskCluster.open(address)
