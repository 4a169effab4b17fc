"""Connecting to a cluster: each thing that can be wrong is one line with the remedy, before a row goes anywhere."""

import copy

import pytest

from sottovoce.cluster import connecting
from sottovoce.cluster.connecting import connected
from sottovoce.exceptions import ClusterError, ParameterError, SottovoceWarning

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(n_workers=1, processes=False, protocol="tcp", dashboard_address=":0") as cluster:
        yield cluster


def refusal(kind, *arguments, **settings):
    with pytest.raises(kind) as caught, connected(*arguments, **settings):
        pass
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_cluster_on_this_machine_is_taken_and_goes_on(cluster):
    for address in (cluster.scheduler_address, cluster.scheduler_address.removeprefix("tcp://")):
        with connected(address) as client:
            assert client.submit(sum, [1, 2]).result() == 3
        assert client.status == "closed"
    assert cluster.workers


def test_a_scheduler_file_is_taken(cluster, tmp_path):
    path = tmp_path / "scheduler.json"
    with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
        client.write_scheduler_file(str(path))
    with connected(str(path)) as client:
        assert client.scheduler_info()["address"] == cluster.scheduler_address


def test_no_worker():
    with distributed.LocalCluster(n_workers=0, processes=False, protocol="tcp", dashboard_address=":0") as empty:
        said = refusal(ClusterError, empty.scheduler_address, timeout=0.2)
    assert said == f"the scheduler at {empty.scheduler_address} has no worker. Start some: dask worker " + (
        empty.scheduler_address
    )


@pytest.mark.parametrize(
    ("kind", "address", "given", "said"),
    [
        (ParameterError, "nothing", {}, "neither HOST:PORT of a scheduler nor a file"),
        (ParameterError, "http://127.0.0.1:8787", {}, "its dashboard: its port is another one"),
        (ParameterError, "tls://127.0.0.1:1", {}, 'with tls_ca="..." and this driver\'s own with tls_cert="..."'),
        (ParameterError, "tls://127.0.0.1:1", {"tls_key": "none.pem"}, "tls_key none.pem: there is no such file"),
        (ParameterError, "tcp://127.0.0.1:1", {"tls_ca": __file__}, "Write tls:// in its place"),
        (ClusterError, "tcp://127.0.0.1:9", {"timeout": 0.2}, "no scheduler answers at tcp://127.0.0.1:9: "),
    ],
)
def test_addresses_that_are_none(kind, address, given, said):
    assert said in refusal(kind, address, **given)


def test_what_can_be_overheard():
    for place in (
        "tcp://127.0.0.1:1",
        "tcp://[::1]:1",
        "tcp://localhost:1",
        "inproc://10.0.0.1/7/1",
        "tls://10.0.0.1:1",
    ):
        assert not connecting._is_overheard(place)
    for place in ("tcp://10.0.0.1:1", "tcp://scheduler:1", "ws://10.0.0.1:1", "tcp://[fe80::1]:1"):
        assert connecting._is_overheard(place)


def test_a_network_in_clear_is_refused_unless_it_is_accepted(cluster, monkeypatch):
    monkeypatch.setattr(connecting, "_is_overheard", lambda place: place != cluster.scheduler_address)
    said = refusal(ParameterError, cluster.scheduler_address)
    (worker,) = cluster.workers.values()
    assert said.startswith(f"{worker.address} of the cluster at {cluster.scheduler_address} talks without TLS: exact")
    assert "in_clear=True" in said
    with connected(cluster.scheduler_address, in_clear=True):
        pass


def versions(cluster):
    with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
        return copy.deepcopy(dict(client.get_versions(packages=[*connecting._SAME, *connecting._ALIKE])))


def test_versions(cluster):
    found = versions(cluster)
    (worker,) = found["workers"]
    connecting._check_versions(found, {worker})
    with pytest.raises(ClusterError, match=r"^sottovoce is not installed at worker tcp://other:1\. .*pip install"):
        connecting._check_versions(found, {worker, "tcp://other:1"})
    for name, place, version, said in (
        ("sottovoce", "worker", None, "sottovoce is not installed at worker "),
        ("sottovoce", "scheduler", None, "sottovoce is not installed at the scheduler"),
        ("sottovoce", "worker", "0.0", r"sottovoce is .* here and 0\.0 at worker "),
        ("distributed", "worker", "1.0", r"distributed is .* here and 1\.0 at worker "),
        ("python", "scheduler", "3.1.0.final.0", r"python is 3\.\d+ here and 3\.1 at the scheduler"),
    ):
        changed = copy.deepcopy(found)
        (changed["workers"][worker] if place == "worker" else changed[place])["packages"][name] = version
        with pytest.raises(ClusterError, match=f"^{said}"):
            connecting._check_versions(changed, {worker})


def test_libraries_that_round_may_differ_with_a_warning(cluster):
    found = versions(cluster)
    (worker,) = found["workers"]
    found["workers"][worker]["packages"]["numpy"] = "1.0"
    with pytest.warns(SottovoceWarning, match=r"^numpy differs between this driver and workers \(1\.0, "):
        connecting._check_versions(found, {worker})
