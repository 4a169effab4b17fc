"""provision: start-up kits of a federation: keys and certificates, and what tells its owner how to go on."""

import datetime
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sottovoce.exceptions import ParameterError
from sottovoce.vertical.engines.identity import names_of
from sottovoce.vertical.flare.federation import Federation
from sottovoce.vertical.flare.hardening.closed import require_engine
from sottovoce.vertical.flare.kit import Kit

_AUTHORITY: Final = "authority"
_AUTHORITY_DAYS: Final = 3600
_LASTS: Final = datetime.timedelta(days=360)  # certificates of sites
_BEFORE: Final = datetime.timedelta(hours=1)  # clocks of two sites differ
_DOCUMENTS: Final = "1.3.6.1.5.5.7.3.36"  # what the key of an identity may sign


def provision(federation: str | Path, out: str | Path, only: str | None = None) -> dict[str, Path]:
    """Make the start-up kits of a federation; return the folder of each site, by name, and of the authority.

    They are made in the folder ``out``, beside ``authority/``: the key that certificates are signed with. A folder that
    is there is an error: keys are never overwritten.

    ``only``: a site that joins later, or gets a new kit; the authority is there already, and the other sites replace
    their federation's file by the one that names it.
    """
    require_engine()
    facts, place = Federation.read(federation), Path(out)
    if only is not None and only not in facts.names:
        raise ParameterError(f"add {only!r}: {federation} has no such site. Add a section [[party]] with this name.")
    names = facts.names if only is None else (only,)
    targets = {name: place / name for name in (*names, *([_AUTHORITY] if only is None else []))}
    for target in targets.values():
        if target.exists():
            raise ParameterError(
                f"{target}: exists, and keys are never overwritten. Choose another folder, or move this one away."
            )
    authority = _new_authority(facts) if only is None else _read_authority(place / _AUTHORITY, facts)
    with _workshop(place) as workshop:
        if only is None:
            authority.write(workshop / _AUTHORITY)
        for name in names:
            _make_kit(workshop / name, facts, name, Path(federation), authority)
        for name, target in targets.items():
            (workshop / name).rename(target)
    return targets


@contextmanager
def _workshop(out: Path) -> Iterator[Path]:
    """Yield a folder beside the kits, so that they move into place whole, or not at all; only its owner can read it."""
    before = os.umask(0o077)
    try:
        out.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=out, prefix=".provision-"))
        try:
            yield folder
        finally:
            shutil.rmtree(folder)
    finally:
        os.umask(before)


def _make_kit(folder: Path, facts: Federation, name: str, federation: Path, authority: "_Authority") -> None:
    coordinator = name == facts.coordinator
    places = ("startup", "identity", "state", *(("runs",) if coordinator else ()))
    for place in places:
        (folder / place).mkdir(parents=True)
    shutil.copyfile(federation, folder / "federation.toml")
    kit = Kit(folder=folder, kind="coordinator" if coordinator else "party", name=name, federation=facts)
    for path, key_path, subject in kit.certificates:
        signs = path.parent == kit.identity
        (path.parent / ("authority.pem" if signs else kit.authority.name)).write_bytes(authority.certificate)
        certificate, key = authority.sign(subject) if signs else authority.sign(subject, name)
        path.write_bytes(certificate)
        key_path.write_bytes(key)
    kind = "helper" if kit.is_helper else kit.kind
    kit.site_file.write_text(kit_text(f"site_{kind}.toml"), encoding="utf-8")
    words = kit_text(f"README_{kind}.txt").format(site=name, federation=facts.name, host=facts.host, port=facts.port)
    (folder / "README.txt").write_text(words, encoding="utf-8")


def kit_text(name: str) -> str:
    return (Path(__file__).with_name("kit_files") / name).read_text(encoding="utf-8")


# ------------------------------------------------------------------ the authority


@dataclass(frozen=True)
class _Authority:
    """Who signs the certificates of a federation; nobody else keeps its key."""

    federation: str
    certificate: bytes
    key: Any

    def sign(self, subject: str, organisation: str | None = None) -> tuple[bytes, bytes]:
        """Return a certificate, and its new key.

        With an organisation FLARE opens connections with it; its server's has a host's name. Without one a site is
        known by it to the others: it has its name, signs what the site says of itself, and opens no connection.
        """
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509 import ExtendedKeyUsage, ObjectIdentifier, load_pem_x509_certificate
        from nvflare.lighter.utils import Identity, generate_cert, generate_keys, serialize_cert, serialize_pri_key

        now, uses = datetime.datetime.now(datetime.UTC), []
        if organisation is None:
            key: Any = ec.generate_private_key(ec.SECP256R1())
            uses = [(ExtendedKeyUsage([ObjectIdentifier(_DOCUMENTS)]), False)]
        else:
            key, _ = generate_keys()
        certificate = generate_cert(
            Identity(subject, organisation), Identity(self.federation), self.key, key.public_key(),
            not_valid_before=now - _BEFORE, extra_extensions=uses,
            not_valid_after=min(now + _LASTS, load_pem_x509_certificate(self.certificate).not_valid_after_utc),
        )  # fmt: skip
        return serialize_cert(certificate), serialize_pri_key(key)

    def write(self, folder: Path) -> None:
        from nvflare.lighter.utils import serialize_pri_key

        folder.mkdir()
        (folder / "rootCA.pem").write_bytes(self.certificate)
        (folder / "rootCA.key").write_bytes(serialize_pri_key(self.key))
        words = kit_text("README_authority.txt").format(federation=self.federation)
        (folder / "README.txt").write_text(words, encoding="utf-8")


def _new_authority(facts: Federation) -> _Authority:
    from nvflare.lighter.utils import Identity, generate_cert, generate_keys, serialize_cert

    key, public = generate_keys()
    itself = Identity(facts.name)
    return _Authority(
        facts.name, serialize_cert(generate_cert(itself, itself, key, public, valid_days=_AUTHORITY_DAYS, ca=True)), key
    )


def _read_authority(folder: Path, facts: Federation) -> _Authority:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from cryptography.x509 import load_pem_x509_certificate

    try:
        root, key = ((folder / name).read_bytes() for name in ("rootCA.pem", "rootCA.key"))
    except OSError as error:
        raise ParameterError(
            f"{error.filename}: {error.strerror}. A new site's certificate is signed with the key of the federation's "
            f"authority: bring the folder {_AUTHORITY}/ that `provision` made first."
        ) from None
    (name,) = names_of(load_pem_x509_certificate(root))
    if name != facts.name:
        raise ParameterError(f"{folder}: this is the authority of federation {name!r}, not of {facts.name!r}.")
    return _Authority(facts.name, root, load_pem_private_key(key, None))
