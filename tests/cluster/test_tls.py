"""Scheduler and workers as processes of their own, with certificates on both sides."""

import pytest

from sottovoce.cluster.connecting import connected
from sottovoce.exceptions import ClusterError, ParameterError
from support.authority import Authority
from support.dask_processes import dask_processes, tls_environment

pytest.importorskip("distributed")
pytestmark = pytest.mark.slow


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
