"""A server on this machine that speaks S3, and files in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from support.ports import free_ports

SECRET = "wJalrXUtnFEMI-not-a-real-key"


@contextmanager
def s3_store(bucket: str = "people") -> Iterator[dict[str, Any]]:
    """Yield the storage options of an empty bucket."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        options = options_for(server.get_host_and_port()[1])
        fs.S3FileSystem(**options, allow_bucket_creation=True).create_dir(bucket)
        yield options
    finally:
        server.stop()


def options_for(port: int) -> dict[str, Any]:
    """Return storage options for a server on this machine."""
    return {
        "endpoint_override": f"127.0.0.1:{port}",
        "scheme": "http",
        "region": "us-east-1",
        "access_key": "AKIAIOSFODNN7EXAMPLE",
        "secret_key": SECRET,
        "connect_timeout": 30,
        "request_timeout": 30,
        "retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=1),
    }


def put(options: dict[str, Any], path: str, table: pa.Table, **how: Any) -> None:
    """Write a table to ``bucket/name``."""
    with fs.S3FileSystem(**options).open_output_stream(path) as file:
        pq.write_table(table, file, **how)


def closed_port() -> int:
    """Return a port of this machine where nobody listens."""
    return free_ports(1)[0]
