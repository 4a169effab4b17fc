"""provision: start-up kits of a federation, with mutual TLS and FLARE's unsafe defaults closed."""

import datetime
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from sottovoce.exceptions import ParameterError, SottovoceError
from sottovoce.vertical.engines.identity import new_certificate
from sottovoce.vertical.flare.federation import Federation
from sottovoce.vertical.flare.hardening.closed import LEAD, require_engine
from sottovoce.vertical.flare.kit import Kit, org_of

_AUTHORITY: Final = "authority"
_AUTHORITY_DAYS: Final = 3600
_IDENTITY_DAYS: Final = 360  # as FLARE's certificates of sites
_KEPT: Final = ("fed_server.json", "fed_client.json", "fed_admin.json", "rootCA.pem")


def provision(federation: str | Path, out: str | Path) -> dict[str, Path]:
    """Make the start-up kits of a federation; return the folder of each site, by name, and of the authority.

    They are made in the folder ``out``, beside ``authority/``: the key that certificates are signed with. A folder that
    is there is an error: keys are never overwritten.
    """
    require_engine()
    facts = Federation.read(federation)
    place = Path(out)
    targets = {name: place / name for name in (*facts.names, _AUTHORITY)}
    _refuse_existing(targets.values())
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _private_files(), _workshop(place) as workshop:
        made = _build(facts, facts.parties, workshop)
        _write_authority(workshop / "state", workshop / _AUTHORITY, facts)
        for name in facts.names:
            _fill_kit(made, facts, name, Path(federation), workshop / _AUTHORITY)
        for name, target in targets.items():
            (workshop / _AUTHORITY if name == _AUTHORITY else made / name).rename(target)
    for name in facts.names:
        Kit.open(targets[name]).write_settings()  # where it is now: absolute paths
    return targets


def add_party(federation: str | Path, out: str | Path, name: str) -> Path:
    """Make the kit of a party that joins later, signed by the same authority; return its folder.

    The federation's file names the new party already, and the other sites replace theirs by it; ``authority/`` is in
    the folder ``out``.
    """
    require_engine()
    facts = Federation.read(federation)
    if name not in facts.parties:
        raise ParameterError(f"add {name!r}: {federation} has no such party. Add a section [[party]] with this name.")
    target, authority = Path(out) / name, Path(out) / _AUTHORITY
    _refuse_existing([target])
    state = _read_authority(authority, facts)
    with _private_files(), _workshop(Path(out)) as workshop:
        made = _build(facts, (name,), workshop, state)
        _fill_kit(made, facts, name, Path(federation), authority)
        (made / name).rename(target)
    Kit.open(target).write_settings()
    return target


def _refuse_existing(targets: Any) -> None:
    for target in targets:
        if target.exists():
            raise ParameterError(
                f"{target}: exists, and keys are never overwritten. Choose another folder, or move this one away."
            )


@contextmanager
def _private_files() -> Iterator[None]:
    """Let new files be readable by their owner alone."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def _workshop(out: Path) -> Iterator[Path]:
    """Yield a folder beside the kits, so that they move into place whole, or not at all."""
    folder = Path(tempfile.mkdtemp(dir=out, prefix=".provision-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


# ------------------------------------------------------------------ FLARE's builders


def _build(facts: Federation, parties: tuple[str, ...], workshop: Path, state: dict[str, str] | None = None) -> Path:
    """Let FLARE's builders make keys, certificates and start-up files; return the folder of kits by site."""
    from nvflare.lighter.constants import CtxKey
    from nvflare.lighter.entity import Participant, Project
    from nvflare.lighter.impl.cert import CertBuilder
    from nvflare.lighter.impl.static_file import StaticFileBuilder
    from nvflare.lighter.impl.workspace import WorkspaceBuilder
    from nvflare.lighter.provisioner import Provisioner

    if state is not None:
        folder = workshop / facts.name / "state"
        folder.mkdir(parents=True)
        (folder / "cert.json").write_text(json.dumps(state), encoding="utf-8")
    project = Project(facts.name, "", props={"api_version": 3})
    project.set_server(facts.host, org_of(facts.coordinator), {"fed_learn_port": facts.port, "admin_port": facts.port})
    for name in parties:
        project.add_client(name, org_of(name), {"allow_log_streaming": False})
    project.add_participant(
        Participant(type="admin", name=LEAD, org=org_of(facts.coordinator), props={"role": "lead"}, project=project)
    )
    builders = [
        WorkspaceBuilder(template_file=["master_template.yml"]), StaticFileBuilder(config_folder="config"),
        CertBuilder(root_valid_days=_AUTHORITY_DAYS),
    ]  # fmt: skip
    errors: list[str] = []
    log = SimpleNamespace(error=errors.append, **dict.fromkeys(("debug", "info", "warning"), lambda message: None))
    ctx = Provisioner(str(workshop), builders).provision(project, logger=log)
    if ctx.get(CtxKey.BUILD_ERROR):
        raise SottovoceError(f"FLARE could not make the kits: {'; '.join(errors)}")
    made = Path(ctx[CtxKey.CURRENT_PROD_DIR])
    if state is None:
        (workshop / facts.name / "state").rename(workshop / "state")
    if (made / facts.host).exists():
        (made / LEAD).rename(made / facts.host / "lead")
        (made / facts.host).rename(made / facts.coordinator)
    return made


def _fill_kit(made: Path, facts: Federation, name: str, federation: Path, authority: Path) -> None:
    """Keep of FLARE's kit what is needed, and add what is ours."""
    folder = made / name
    for place in (folder, folder / "lead"):
        if not place.exists():
            continue
        for path in (place / "startup").iterdir():
            if path.name not in _KEPT and path.suffix not in (".crt", ".key"):
                path.unlink()
        shutil.rmtree(place / "transfer")
        (place / "readme.txt").unlink(missing_ok=True)
    shutil.rmtree(folder / "local")
    (folder / "local").mkdir()
    (folder / "state").mkdir()
    coordinator = name == facts.coordinator
    if coordinator:
        (folder / "runs").mkdir()
        (folder / "lead" / "transfer").mkdir()
        _listen(folder / "startup" / "fed_server.json", facts)
    _write_identity(folder / "identity", name, authority)
    shutil.copyfile(federation, folder / "federation.toml")
    kind = "coordinator" if coordinator else "helper" if name in facts.helpers else "party"
    (folder / "site.toml").write_text(kit_text(f"site_{kind}.toml"), encoding="utf-8")
    words = kit_text(f"README_{kind}.txt").format(site=name, federation=facts.name, host=facts.host, port=facts.port)
    (folder / "README.txt").write_text(words, encoding="utf-8")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)


def kit_text(name: str) -> str:
    return (Path(__file__).with_name("kit_files") / name).read_text(encoding="utf-8")


def _listen(path: Path, facts: Federation) -> None:
    """Listen on all addresses, unless the federation is on one machine: its name may be that of a proxy."""
    content = json.loads(path.read_text(encoding="utf-8"))
    content["servers"][0]["service"]["target"] = f"{facts.host if facts.on_one_machine else '0.0.0.0'}:{facts.port}"
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


# ------------------------------------------------------------------ the authority


def _write_authority(state: Path, folder: Path, facts: Federation) -> None:
    """Keep the authority's own key and certificate; FLARE would keep the keys of all sites with them."""
    content = json.loads((state / "cert.json").read_text(encoding="utf-8"))
    folder.mkdir()
    (folder / "rootCA.pem").write_text(content["root_cert"], encoding="ascii")
    (folder / "rootCA.key").write_text(content["root_pri_key"], encoding="ascii")
    (folder / "README.txt").write_text(kit_text("README_authority.txt").format(federation=facts.name), encoding="utf-8")


def _read_authority(folder: Path, facts: Federation) -> dict[str, str]:
    from cryptography.x509 import load_pem_x509_certificate
    from cryptography.x509.oid import NameOID

    try:
        root, key = (folder / "rootCA.pem").read_text("ascii"), (folder / "rootCA.key").read_text("ascii")
    except OSError as error:
        raise ParameterError(
            f"{error.filename}: {error.strerror}. A new party's certificate is signed with the key of the federation's "
            f"authority: bring the folder {_AUTHORITY}/ that `provision` made first."
        ) from None
    (common_name,) = load_pem_x509_certificate(root.encode()).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if common_name.value != facts.name:
        raise ParameterError(
            f"{folder}: this is the authority of federation {common_name.value!r}, not of {facts.name!r}."
        )
    return {"root_cert": root, "root_pri_key": key}


# ------------------------------------------------------------------ identities


def _write_identity(folder: Path, name: str, authority: Path) -> None:
    """Make the folder by which a site is known to the others, signed with the key in the folder of the authority.

    FLARE's certificates open TLS connections, and its server's has the name of a host. This one has the name of the
    site, and signs what the site says of itself (`sottovoce.vertical.engines.seat`): it opens no connection.
    """
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from cryptography.x509 import load_pem_x509_certificate
    from cryptography.x509.oid import ObjectIdentifier

    root, root_key = ((authority / file).read_bytes() for file in ("rootCA.pem", "rootCA.key"))
    documents = ObjectIdentifier("1.3.6.1.5.5.7.3.36")
    issuer, signer = load_pem_x509_certificate(root), load_pem_private_key(root_key, None)
    key, certificate = new_certificate(name, [documents], datetime.timedelta(days=_IDENTITY_DAYS), issuer, signer)
    folder.mkdir(mode=0o700)
    for file, content in (("authority.pem", root), ("certificate.pem", certificate), ("key.pem", key)):
        (folder / file).write_bytes(content)
