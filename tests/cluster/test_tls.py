"""Scheduler and workers as processes of their own, with certificates on both sides."""

import numpy as np
import pandas as pd
import pytest

import sottovoce as sv
from sottovoce.tables import Schema, read_table
from support.authority import Authority
from support.dask_processes import dask_processes, tls_environment

distributed = pytest.importorskip("distributed")
from sottovoce.cluster import DaskTable  # noqa: E402

SCHEMA = Schema.from_columns({"age": (0, 100), "old": {"categories": ["no", "yes"]}}, target="old")


def test_a_table_is_encoded_and_trained_on_over_tls(tmp_path):
    identity = Authority().identity(tmp_path / "machine", "machine")
    security = distributed.Security(
        tls_ca_file=str(identity / "authority.pem"), tls_client_cert=str(identity / "certificate.pem"),
        tls_client_key=str(identity / "key.pem"), require_encryption=True,
    )  # fmt: skip
    rng, path = np.random.default_rng(0), tmp_path / "people.parquet"
    people = pd.DataFrame({"age": rng.integers(0, 90, 4000), "old": rng.choice(["no", "yes"], 4000)})
    people.to_parquet(path, row_group_size=500)
    model = sv.DPLinearSVC(epsilon=1.0, delta=1e-5, data_norm=1.0, classes=["no", "yes"], random_state=0)
    table = read_table(path)
    here = model.fit(SCHEMA.features(table), SCHEMA.labels(table)).coef_.tolist()
    with (
        dask_processes(tmp_path, protocol="tls", environment=tls_environment(identity)) as address,
        distributed.Client(address, security=security, set_as_default=False) as client,
        DaskTable.from_parquet(client, path, schema=SCHEMA) as rows,
    ):
        assert all(place.startswith("tls://") for place in client.scheduler_info(n_workers=-1)["workers"])
        assert model.fit(rows).coef_.tolist() == here
