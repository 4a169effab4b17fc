"""To a cluster that runs: a client of Dask's, checked before a row or a line of code goes anywhere."""

from __future__ import annotations

import ipaddress
import logging
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sottovoce.cluster.dask_pool import require_dask
from sottovoce.exceptions import ClusterError, ParameterError, SottovoceWarning

if TYPE_CHECKING:
    from distributed import Client

_SAME: Final = ("sottovoce", "dask", "distributed")  # who differs here may not understand the others
_ALIKE: Final = ("numpy", "scipy", "numba", "pyarrow")  # who differs here may round otherwise
_NAMED: Final = 3
_FILES: Final = {"tls_ca": "tls_ca_file", "tls_cert": "tls_client_cert", "tls_key": "tls_client_key"}


@contextmanager
def connected(
    address: str,
    *,
    tls_ca: str | Path | None = None,
    tls_cert: str | Path | None = None,
    tls_key: str | Path | None = None,
    in_clear: bool = False,
    timeout: float = 20.0,
) -> Iterator[Client]:
    """Connect to a cluster, and refuse one that could not do the work or that would give rows away.

    ``address``: ``tcp://host:port``, ``tls://host:port``, or the path of a file of `dask scheduler --scheduler-file`.
    ``tls_ca``, ``tls_cert``, ``tls_key``: files in PEM; None leaves them to Dask's own configuration.
    ``timeout``: seconds to wait for the scheduler, and for its first worker.

    Yields a client, which is closed at the end; the cluster goes on. Warns of libraries that round otherwise.
    """
    require_dask()
    where, given = _place(address), {"tls_ca": tls_ca, "tls_cert": tls_cert, "tls_key": tls_key}
    security = _security(where, given)
    client = _client(where, address, security, timeout)
    try:
        _check(client, address, in_clear, timeout)
        yield client
    finally:
        client.close()


def _place(address: str) -> dict[str, str]:
    if "://" in address:
        scheme = address.partition("://")[0]
        if scheme not in ("tcp", "tls", "ucx", "ws", "wss", "inproc"):
            raise ParameterError(
                f"address {address}: a scheduler of Dask's is at tcp://HOST:PORT or tls://HOST:PORT. A page at http:// "
                "is its dashboard: its port is another one."
            )
        return {"address": address}
    if Path(address).is_file():
        return {"scheduler_file": address}
    host, colon, port = address.rpartition(":")
    if colon and host and port.isdigit():
        return {"address": f"tcp://{address}"}
    raise ParameterError(
        f"address {address}: neither HOST:PORT of a scheduler nor a file that `dask scheduler --scheduler-file` wrote. "
        "Give tcp://HOST:8786, tls://HOST:8786, or the path of such a file."
    )


def _security(where: Mapping[str, str], given: Mapping[str, str | Path | None]) -> Any:
    """Return Dask's own settings, with the files that were given in place of its own."""
    distributed: Any = import_module("distributed")  # any: it is typed in part
    for name, path in given.items():
        if path is not None and not Path(path).is_file():
            raise ParameterError(f"{name} {path}: there is no such file. Give one in PEM format.")
    if where.get("address", "").startswith("tcp://") and any(given.values()):
        raise ParameterError(
            f"address {where['address']}: this is without TLS, and certificates were given. Write tls:// in its place."
        )
    security = distributed.Security(**{_FILES[name]: str(path) for name, path in given.items() if path is not None})
    if where.get("address", "").startswith("tls://") and not (security.tls_ca_file and security.tls_client_cert):
        raise ParameterError(
            f"address {where['address']}: TLS needs certificates on both sides. Give files, the authority's with "
            'tls_ca="..." and this driver\'s own with tls_cert="..." and tls_key="...", or set distributed.comm.tls in '
            "Dask's configuration."
        )
    return security


def _client(where: Mapping[str, str], address: str, security: Any, timeout: float) -> Any:
    distributed: Any = import_module("distributed")
    try:
        with _silent("distributed"), warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", distributed.versions.VersionMismatchWarning
            )  # _check says what matters of it
            return distributed.Client(**where, security=security, timeout=timeout, set_as_default=False)
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        raise ClusterError(
            f"no scheduler answers at {address}: {_reason(error)}. Is it running, is its port open to this machine, "
            "and does it speak TLS (tls://) or not (tcp://), with certificates of the same authority?"
        ) from error


def _check(client: Any, address: str, in_clear: bool, timeout: float) -> None:
    try:
        client.wait_for_workers(1, timeout=timeout)
    except TimeoutError:
        raise ClusterError(f"the scheduler at {address} has no worker. Start some: dask worker {address}") from None
    seen: Any = client.scheduler_info(n_workers=-1)
    workers = seen["workers"]
    open_ones = [place for place in (seen["address"], *workers) if _is_overheard(place)]
    if open_ones and not in_clear:
        raise ParameterError(
            f"{_some(open_ones)} of the cluster at {address} talks without TLS: exact sums of private rows would cross "
            "the network in clear, and whoever reaches the scheduler runs code where the rows are. Start the cluster "
            "with certificates and give tls://, or accept a network that nobody else reaches with in_clear=True."
        )
    found: Any = client.get_versions(packages=[*_SAME, *_ALIKE])
    _check_versions(found, set(workers))


def _check_versions(found: Mapping[str, Any], workers: set[str]) -> None:
    here = found["client"]["packages"]
    there = {f"worker {place}": said["packages"] for place, said in found["workers"].items()}
    there |= {f"worker {place}": {} for place in workers - set(found["workers"])}  # it did not answer
    theirs = {"the scheduler": found["scheduler"]["packages"], **there}
    python = {place: _minor(said.get("python")) for place, said in theirs.items()}
    for name, mine, others in (
        *((name, here[name], {place: said.get(name) for place, said in theirs.items()}) for name in _SAME),
        ("python", _minor(here["python"]), python),
    ):
        lacking = [place for place, version in others.items() if version is None]
        if lacking:
            raise ClusterError(
                f"{name} is not installed at {_some(lacking)}. Scheduler and workers need the environment of this "
                f"driver: pip install 'sottovoce[cluster]=={here['sottovoce']}' there, or use one image for all."
            )
        differing = [place for place, version in others.items() if version != mine]
        if differing:
            raise ClusterError(
                f"{name} is {mine} here and {others[differing[0]]} at {_some(differing)}. Install the same version "
                "everywhere, or use one image for all."
            )
    for name in _ALIKE:
        versions = {said.get(name) for said in there.values()} | {here.get(name)}
        if len(versions) > 1:
            warnings.warn(
                f"{name} differs between this driver and workers ({', '.join(sorted(map(str, versions)))}): the model "
                "is as private, but another run of the same seed may differ in its last bits.",
                SottovoceWarning,
                stacklevel=2,
            )


def _is_overheard(place: str) -> bool:
    """Tell whether what is said to an address crosses a network in clear."""
    scheme, _, rest = place.partition("://")
    if scheme in ("tls", "wss", "inproc"):
        return False
    host = rest.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return False
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True


def _minor(version: str | None) -> str | None:
    return None if version is None else ".".join(version.split(".")[:2])


def _some(places: Iterable[str]) -> str:
    named = list(places)
    return ", ".join(named[:_NAMED]) + (f" and {len(named) - _NAMED} more" if len(named) > _NAMED else "")


def _reason(error: BaseException) -> str:
    text = str(error).partition("\n")[0].rstrip(".")
    return text or type(error).__name__


@contextmanager
def _silent(name: str) -> Iterator[None]:
    """Keep a logger's lines from stderr: what they would say is in the error."""
    logger = logging.getLogger(name)
    handlers, logger.handlers = logger.handlers, [logging.NullHandler()]
    try:
        yield
    finally:
        logger.handlers = handlers
