"""Kit: the folder that a site is started from, and the check that what is unsafe in it is still closed."""

from __future__ import annotations

import datetime
import json
import shlex
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sottovoce._files import write_whole
from sottovoce.exceptions import ParameterError, SottovoceWarning
from sottovoce.vertical.flare.federation import Federation
from sottovoce.vertical.flare.hardening.closed import (
    AUTHORIZATION,
    COMMUNICATION,
    LEAD,
    LOGGING,
    first_difference,
    resources,
    shown,
)

_STARTUP: Final = {
    "coordinator": ("fed_server.json", "server.crt", "server.key", "rootCA.pem"),
    "party": ("fed_client.json", "client.crt", "client.key", "rootCA.pem"),
}
_LEAD: Final = ("fed_admin.json", "client.crt", "client.key", "rootCA.pem")
_WARN_DAYS: Final = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Kit:
    """The start-up kit of one site; its folder, absolute, is the root of FLARE's workspace.

    The kind is "coordinator" or "party", the name that of the site.
    """

    folder: Path
    kind: str
    name: str
    federation: Federation

    @classmethod
    def open(cls, folder: str | Path) -> Kit:
        """Return the kit of a folder that ``sottovoce vertical provision`` made; any other is a `ParameterError`."""
        path = Path(folder).resolve()
        kind = next((kind for kind, files in _STARTUP.items() if (path / "startup" / files[0]).is_file()), None)
        if kind is None:
            raise ParameterError(
                f"{folder}: this is not a start-up kit. Give a site's folder that `sottovoce vertical provision` made."
            )
        federation = Federation.read(path / "federation.toml")
        name = federation.coordinator if kind == "coordinator" else _party_name(path, federation)
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
    def lead(self) -> Path:
        return self.folder / "lead"

    @property
    def runs(self) -> Path:
        """The coordinator's results, one folder a run."""
        return self.folder / "runs"

    @property
    def expires(self) -> datetime.datetime:
        """When the first of the kit's certificates ends."""
        from cryptography.x509 import load_pem_x509_certificate

        places = ("startup/*.crt", "lead/startup/*.crt", "identity/certificate.pem")
        found = [path for place in places for path in self.folder.glob(place)]
        certificates = [load_pem_x509_certificate(path.read_bytes()) for path in found]
        authority = load_pem_x509_certificate((self.folder / "startup" / "rootCA.pem").read_bytes())
        return min(certificate.not_valid_after_utc for certificate in [*certificates, authority])

    def refuse_kind(self, wanted: str) -> None:
        if self.kind != wanted:
            raise ParameterError(
                f"{self.folder}: the kit of {self.name}, which is a {self.kind}. Give that of a {wanted}; this one is "
                f"started by: sottovoce vertical {self.kind} {shlex.quote(str(self.folder))}"
            )

    def check_closed(self) -> None:
        """Refuse a kit that could do more than it was made for, or whose certificates are not its own or not valid now.

        The error names the file, the entry and the remedy. A certificate that ends within 30 days is a warning.
        """
        self._check_files()
        for name, expected in _settings(self.kind, self._stores()).items():
            _check_same(self.folder / "local" / name, expected)
        self._check_connection()
        self._check_certificates()
        self._check_expiry()

    def settle(self) -> None:
        """Take the folder where the kit is now as its home: FLARE wants absolute paths of the coordinator's stores."""
        runs = [self.runs] if self.kind == "coordinator" else []
        for folder in (self.state, self.state / "transfer", temporary(self.state), *runs):
            folder.mkdir(mode=0o700, exist_ok=True)
        if self.kind == "coordinator" and self._stores() != self.state:
            _write_private(self.folder / "local" / "resources.json", resources(self.kind, self.state))

    def write_settings(self) -> None:
        local = self.folder / "local"
        local.mkdir(mode=0o700, exist_ok=True)
        for name, content in _settings(self.kind, self.state).items():
            _write_private(local / name, content)

    # ------------------------------------------------------------------ what check_closed looks at

    def _check_files(self) -> None:
        """Refuse files that FLARE would read too, and files that others on the machine can read."""
        allowed = {"startup": _STARTUP[self.kind], "local": tuple(_settings(self.kind, self.state))}
        if self.kind == "coordinator":
            allowed["lead/startup"] = _LEAD
        for place, names in allowed.items():
            found = {path.name for path in (self.folder / place).glob("*")}
            for name in sorted(found.difference(names)):
                raise ParameterError(
                    f"{self.folder / place / name}: not a file of the kit, and FLARE might read or run it. Remove it."
                )
            for name in sorted(set(names) - found):
                raise ParameterError(
                    f"{self.folder / place / name}: missing. Take it from the kit that you were given."
                )
        tops = [self.folder / place for place in (*allowed, "identity")]
        below = (path for top in tops for path in top.rglob("*") if not path.is_symlink())
        for path in (self.folder, self.state, *tops, *below):
            if path.exists() and path.stat().st_mode & 0o077:
                raise ParameterError(
                    f"{path}: others on this machine can get at it (mode {path.stat().st_mode & 0o777:o}). Run: "
                    f"chmod -R go= {self.folder}"
                )

    def _stores(self) -> Path:
        """Return where the coordinator's stores were put when the kit was made or last started."""
        if self.kind != "coordinator":
            return self.state
        content = _read_json(self.folder / "local" / "resources.json")
        try:
            found = Path(next(one for one in content["components"] if one["id"] == "job_manager")["args"]["uri_root"])
        except (LookupError, TypeError, StopIteration):
            return self.state  # the comparison says what is wrong
        return found.parent if found.is_absolute() and found.parent.name == "state" else self.state

    def _check_connection(self) -> None:
        name = _STARTUP[self.kind][0]
        path = self.folder / "startup" / name
        content = _read_json(path)
        try:
            section = content["servers"][0] if self.kind == "coordinator" else content["client"]
            security = section["connection_security"]
        except (LookupError, TypeError):
            security = None
        if security != "mtls":
            raise ParameterError(
                f'{path}: connection_security is {security!r} and must be "mtls": certificates on both sides. '
                "Take the file from the kit that you were given."
            )

    def _check_certificates(self) -> None:
        """Refuse a certificate of another site or federation, one without its key, and one of the future."""
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
        from cryptography.x509 import load_pem_x509_certificate
        from cryptography.x509.oid import NameOID

        remedy = "Take all of the kit from the one that you were given."
        places = {"startup/client": self.name, "identity/certificate": self.name}
        if self.kind == "coordinator":
            places = {
                "startup/server": self.federation.host, "lead/startup/client": LEAD, "identity/certificate": self.name
            }  # fmt: skip
        authority = load_pem_x509_certificate((self.folder / "startup" / "rootCA.pem").read_bytes())
        for place, name in places.items():
            path, key_path = self.folder / f"{place}.crt", self.folder / f"{place}.key"
            if place.startswith("identity/"):
                path, key_path = self.identity / "certificate.pem", self.identity / "key.pem"
                if not path.is_file():
                    continue
            try:
                certificate = load_pem_x509_certificate(path.read_bytes())
                key = load_pem_private_key(key_path.read_bytes(), None)
            except (OSError, ValueError, TypeError):
                raise ParameterError(f"{path}: certificate or key cannot be read. {remedy}") from None
            shown = [entry.value for entry in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
            if shown != [name]:
                raise ParameterError(
                    f"{path}: it is the certificate of {', '.join(map(str, shown))!r}, and this is the kit of "
                    f"{self.name!r}, where {name!r} belongs: files of two sites are mixed. {remedy}"
                )
            try:
                certificate.verify_directly_issued_by(authority)
            except Exception:  # the signature is wrong, or of another kind of key
                raise ParameterError(
                    f"{path}: the authority in {self.folder / 'startup' / 'rootCA.pem'} has not signed it. {remedy}"
                ) from None
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


def org_of(name: str) -> str:
    """Return the name of a site as FLARE writes organisations: each site is one."""
    return name.replace("-", "_")


def _settings(kind: str, state: Path) -> dict[str, dict[str, Any]]:
    return {
        "authorization.json": AUTHORIZATION, "comm_config.json": COMMUNICATION, "log_config.json": LOGGING,
        "resources.json": resources(kind, state),
    }  # fmt: skip


def _party_name(folder: Path, federation: Federation) -> str:
    path = folder / "startup" / "fed_client.json"
    content = _read_json(path)
    client = content.get("client")
    name = client.get("fqsn") if isinstance(client, dict) else None
    if name not in federation.parties:
        raise ParameterError(
            f"{path}: fqsn is {name!r}, no party of {folder / 'federation.toml'}. Take both from your kit."
        )
    return str(name)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ParameterError(
            f"{path}: cannot be read as JSON ({error}). Take it from the kit you were given."
        ) from None
    if not isinstance(content, dict):
        raise ParameterError(f"{path}: not a JSON object. Take it from the kit that you were given.")
    return content


def _write_private(path: Path, content: Mapping[str, Any]) -> None:
    write_whole(path, json.dumps(content, indent=2) + "\n", private=True)


def _check_same(path: Path, expected: object) -> None:
    entry = first_difference(_read_json(path), expected)
    if entry is not None:
        name, found, closed = entry
        raise ParameterError(
            f"{path}: {name} is {shown(found)} and must be {shown(closed)}: it closes what is unsafe. Take the file "
            "from the kit that you were given."
        )
