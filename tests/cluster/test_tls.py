"""Scheduler and workers as processes of their own, with certificates on both sides."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from sottovoce.cluster.connecting import connected
from sottovoce.estimators.persistence import load_model
from sottovoce.exceptions import ClusterError, ParameterError
from support.authority import Authority
from support.dask_processes import dask_processes, tls_environment
from support.schemas import schema_text

pytest.importorskip("distributed")
pytestmark = pytest.mark.slow


SCHEMA = schema_text("old", age=(0, 100), old=["no", "yes"])


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secured")
    identity = Authority().identity(folder / "machine", "machine")
    with dask_processes(folder, protocol="tls", environment=tls_environment(identity)) as address:
        yield address, identity


def files(identity):
    return {
        "tls_ca": identity / "authority.pem", "tls_cert": identity / "certificate.pem", "tls_key": identity / "key.pem"
    }  # fmt: skip


def test_certificates_that_are_given_open_the_cluster(secured):
    address, identity = secured
    assert address.startswith("tls://")
    with connected(address, **files(identity)) as client:
        workers = client.scheduler_info(n_workers=-1)["workers"]
        assert len(workers) == 2
        assert all(place.startswith("tls://") for place in workers)
        assert client.submit(sum, [1, 2]).result() == 3


def test_dasks_own_configuration_is_respected(secured):
    dask = pytest.importorskip("dask")
    address, identity = secured
    with pytest.raises(ParameterError, match="TLS needs certificates on both sides"), connected(address):
        pass
    settings = {
        "distributed.comm.tls.ca-file": str(identity / "authority.pem"),
        "distributed.comm.tls.client.cert": str(identity / "certificate.pem"),
        "distributed.comm.tls.client.key": str(identity / "key.pem"),
    }
    with dask.config.set(settings), connected(address) as client:
        assert client.submit(sum, [1, 2]).result() == 3


def test_who_has_a_certificate_of_another_authority_is_kept_out(secured, tmp_path):
    address, identity = secured
    stranger = Authority("another").identity(tmp_path / "stranger", "stranger")
    believing = {**files(stranger), "tls_ca": identity / "authority.pem"}  # it trusts the cluster, which trusts it not
    for given in (files(stranger), believing):
        with (
            pytest.raises(ClusterError, match="no scheduler answers at tls://"),
            connected(address, **given, timeout=3),
        ):
            pass
    plain = address.replace("tls://", "tcp://")
    with pytest.raises(ClusterError, match="no scheduler answers at tcp://"), connected(plain, timeout=3):
        pass


def test_the_command_line_trains_over_tls(secured, tmp_path):
    address, identity = secured
    rng = np.random.default_rng(0)
    pd.DataFrame({"age": rng.integers(0, 90, 4000), "old": rng.choice(["no", "yes"], 4000)}).to_parquet(
        tmp_path / "people.parquet", row_group_size=500
    )
    (tmp_path / "schema.toml").write_text(SCHEMA)
    fit = [sys.executable, "-m", "sottovoce", "fit", "people.parquet", "--schema", "schema.toml", "--model", "svm"]
    fit += ["--epsilon", "1", "--delta", "1e-5", "--random-state", "0"]
    given = {name.replace("_", "-"): str(path) for name, path in files(identity).items()}
    tls = [word for name, path in given.items() for word in (f"--{name}", path)]
    for more in (["--out", "here.json"], ["--out", "there.json", "--cluster", address, *tls]):
        done = subprocess.run([*fit, *more], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
    assert load_model(tmp_path / "here.json")[0].coef_.tolist() == load_model(tmp_path / "there.json")[0].coef_.tolist()
    done = subprocess.run(
        [*fit, "--out", "none.json", "--cluster", address.replace("tls://", "tcp://")],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("error: no scheduler answers at tcp://")
    assert done.stderr.count("\n") == 1
