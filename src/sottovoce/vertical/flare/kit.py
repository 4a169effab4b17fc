"""Kit: the folder that a site is started from: how it is made, and that nothing in it is somebody else's."""

from __future__ import annotations

import datetime
import os
import shlex
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sottovoce.exceptions import ParameterError, SottovoceWarning
from sottovoce.vertical.engines.identity import names_of
from sottovoce.vertical.flare.federation import Federation
from sottovoce.vertical.flare.hardening.closed import require_engine

_WARN_DAYS: Final = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Kit:
    """The start-up kit of one site, in a folder, which is absolute.

    The kind is "coordinator" or "party", the name that of the site.
    """

    folder: Path
    kind: str
    name: str
    federation: Federation

    @classmethod
    def open(cls, folder: str | Path, wanted: str | None = None) -> Kit:
        """Return the kit of a folder that ``sottovoce vertical provision`` made; any other is a `ParameterError`.

        So is one of another kind than is ``wanted``.
        """
        from cryptography.x509 import load_pem_x509_certificate

        path = Path(folder).resolve()
        try:
            (name,) = names_of(load_pem_x509_certificate((path / "identity" / "certificate.pem").read_bytes()))
        except (OSError, ValueError):
            raise ParameterError(
                f"{folder}: this is not a start-up kit. Give a site's folder that `sottovoce vertical provision` made."
            ) from None
        federation = Federation.read(path / "federation.toml")
        if name not in federation.names:
            raise ParameterError(f"{path / 'federation.toml'}: no site has the name of this kit, {name!r}.")
        kind = "coordinator" if name == federation.coordinator else "party"
        if wanted not in (None, kind):
            raise ParameterError(
                f"{path}: the kit of {name}, which is a {kind}. Give that of a {wanted}; this one is for: "
                f"sottovoce vertical {'party' if kind == 'party' else 'train'} {shlex.quote(str(path))}"
            )
        return cls(folder=path, kind=kind, name=name, federation=federation)

    @property
    def site_file(self) -> Path:
        """What the site has filled in about its table, budget and caps; never sent."""
        return self.folder / "site.toml"

    @property
    def state(self) -> Path:
        """Where the site keeps what happened: register, journals, parts of models, log."""
        return self.folder / "state"

    @property
    def identity(self) -> Path:
        """Certificate and key by which other sites know this one in joint computations, where lines are direct."""
        return self.folder / "identity"

    @property
    def is_helper(self) -> bool:
        return self.name in self.federation.helpers

    @property
    def runs(self) -> Path:
        """The coordinator's results, one folder a run."""
        return self.folder / "runs"

    @property
    def certificates(self) -> list[tuple[Path, Path, str]]:
        """Each certificate of the kit, the file with its key, and the name that it has."""
        end, name = ("server", self.federation.host) if self.kind == "coordinator" else ("client", self.name)
        line = self.folder / "startup" / f"{end}.crt"
        return [
            (line, line.with_suffix(".key"), name),
            (self.identity / "certificate.pem", self.identity / "key.pem", self.name),
        ]

    @property
    def authority(self) -> Path:
        """The certificate of who has signed all of them."""
        return self.folder / "startup" / "rootCA.pem"

    @property
    def expires(self) -> datetime.datetime:
        """When the first of the kit's certificates ends."""
        from cryptography.x509 import load_pem_x509_certificate

        paths = [self.authority, *(path for path, _, _ in self.certificates)]
        return min(load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc for path in paths)

    def check(self) -> None:
        """Refuse a kit that others can read, or with certificates that are not its own, or are not valid now.

        The error names the file and the remedy. A certificate that ends within 30 days is a warning.
        """
        self._check_files()
        self._check_certificates()
        self._check_expiry()

    def make_folders(self) -> None:
        """Make those that the site writes to."""
        for folder in (self.state, temporary(self.state), *([self.runs] if self.kind == "coordinator" else [])):
            folder.mkdir(mode=0o700, exist_ok=True)

    def _check_files(self) -> None:
        """Refuse files that are missing, and files that others on the machine can read."""
        brought = {path for certificate, key, _ in self.certificates for path in (certificate, key)}
        for path in sorted({*brought, self.authority, self.identity / "authority.pem"}):
            if not path.is_file():
                raise ParameterError(f"{path}: missing. Take it from the kit that you were given.")
        tops = [self.folder / "startup", self.identity]
        below = (path for top in tops for path in top.rglob("*") if not path.is_symlink())
        for path in (self.folder, self.state, *tops, *below):
            if path.exists() and path.stat().st_mode & 0o077:
                raise ParameterError(
                    f"{path}: others on this machine can get at it (mode {path.stat().st_mode & 0o777:o}). Run: "
                    f"chmod -R go= {self.folder}"
                )

    def _check_certificates(self) -> None:
        """Refuse a certificate of another site or federation, one without its key, and one of the future."""
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
        from cryptography.x509 import load_pem_x509_certificate

        remedy = "Take all of the kit from the one that you were given."
        for path, key_path, name in self.certificates:
            try:
                authority = load_pem_x509_certificate(self.authority.read_bytes())
                certificate = load_pem_x509_certificate(path.read_bytes())
                key = load_pem_private_key(key_path.read_bytes(), None)
            except (OSError, ValueError, TypeError):
                raise ParameterError(f"{path}: certificate or key cannot be read. {remedy}") from None
            shown = names_of(certificate)
            if shown != [name]:
                raise ParameterError(
                    f"{path}: it is the certificate of {', '.join(shown)!r}, and this is the kit of "
                    f"{self.name!r}, where {name!r} belongs: files of two sites are mixed. {remedy}"
                )
            try:
                certificate.verify_directly_issued_by(authority)
            except Exception:  # the signature is wrong, or of another kind of key
                raise ParameterError(f"{path}: the authority in {self.authority} has not signed it. {remedy}") from None
            if key.public_key() != certificate.public_key():
                raise ParameterError(f"{key_path}: this is not the key of {path}. {remedy}")
            if certificate.not_valid_before_utc > datetime.datetime.now(datetime.UTC):
                raise ParameterError(
                    f"{path}: it is valid from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC on, which is in "
                    "the future. Set the clock of this machine."
                )

    def _check_expiry(self) -> None:
        left = self.expires - datetime.datetime.now(datetime.UTC)
        remedy = "Whoever keeps the federation's authority makes new kits: sottovoce vertical provision."
        if left.total_seconds() <= 0:
            raise ParameterError(f"{self.folder}: a certificate ended on {self.expires:%Y-%m-%d}. {remedy}")
        if left.days < _WARN_DAYS:
            warnings.warn(
                f"{self.folder}: a certificate ends on {self.expires:%Y-%m-%d}. {remedy}",
                SottovoceWarning,
                stacklevel=3,
            )


def temporary(state: Path) -> Path:
    """Return the folder for the temporary files of a site's processes: what a killed one left is found there."""
    return state / "tmp"


def clear_leftovers(state: Path) -> None:
    """Remove what joint computations of earlier runs left: keys of their sessions. No other run is under way here."""
    for folder in temporary(state).glob("sottovoce-*"):
        shutil.rmtree(folder, ignore_errors=True)


# ------------------------------------------------------------------ provision

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


def _make_kit(folder: Path, facts: Federation, name: str, federation: Path, authority: _Authority) -> None:
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
