"""Kit: the folder that a site is started from, and the check that nothing in it is somebody else's."""

from __future__ import annotations

import datetime
import shlex
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sottovoce.exceptions import ParameterError, SottovoceWarning
from sottovoce.vertical.engines.identity import names_of
from sottovoce.vertical.flare.federation import Federation

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
