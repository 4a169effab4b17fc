"""provision: start-up kits of a federation, with mutual TLS and FLARE's unsafe defaults closed."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sottovoce.exceptions import ParameterError, SottovoceError
from sottovoce.vertical.flare.engine import LEAD, require_engine
from sottovoce.vertical.flare.federation import Federation
from sottovoce.vertical.flare.identity import write_identity
from sottovoce.vertical.flare.kit import Kit, org_of

__all__ = ["add_party", "provision"]

_AUTHORITY: Final = "authority"
_AUTHORITY_DAYS: Final = 3600
_KEPT: Final = ("fed_server.json", "fed_client.json", "fed_admin.json", "rootCA.pem")


def provision(federation: str | Path, out: str | Path) -> dict[str, Path]:
    """Make the start-up kits of a federation.

    Parameters
    ----------
    federation : str or Path
        The federation's public file.
    out : str or Path
        The folder for the kits, one folder a site, and for ``authority/``: the key that certificates are signed with.

    Returns
    -------
    dict
        The folder of each site, by name, and of the authority.

    Raises
    ------
    ParameterError
        If a folder exists: keys are never overwritten.
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

    Parameters
    ----------
    federation : str or Path
        The federation's file, which names the new party already; the other sites replace theirs by it.
    out : str or Path
        The folder with ``authority/``.
    name : str
        Of the new party.
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


class _Quiet:
    """What FLARE's provisioner logs to: errors are kept for the exception."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def debug(self, message: str) -> None:
        """Drop."""

    info = warning = debug

    def error(self, message: str) -> None:
        """Keep."""
        self.errors.append(message)


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
    log = _Quiet()
    ctx = Provisioner(str(workshop), builders).provision(project, logger=log)
    if ctx.get(CtxKey.BUILD_ERROR):
        raise SottovoceError(f"FLARE could not make the kits: {'; '.join(log.errors)}")
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
    write_identity(folder / "identity", name, authority)
    shutil.copyfile(federation, folder / "federation.toml")
    helps = name in facts.helpers
    site = _SITE_COORDINATOR if coordinator else _SITE_HELPER if helps else _SITE_PARTY
    (folder / "site.toml").write_text(site, encoding="utf-8")
    (folder / "README.txt").write_text(
        (_README_COORDINATOR if coordinator else _README_HELPER if helps else _README_PARTY).format(
            site=name, federation=facts.name, host=facts.host, port=facts.port
        ), encoding="utf-8",
    )  # fmt: skip
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)


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
    (folder / "README.txt").write_text(_README_AUTHORITY.format(federation=facts.name), encoding="utf-8")


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


# ------------------------------------------------------------------ texts of a kit

_SITE_TABLE: Final = """\
# What this site brings to the federation, and what it allows. Private: it is never sent.
# Paths are relative to this file.

[data]
table = "people.csv"       # CSV or Parquet, one row a person
schema = "people.toml"     # public facts about the columns: bounds and categories, not taken from the data
# id = "person"            # the column that people are matched by; leave out if all sites' rows are in the same order

# [scoring]
# table = "new_people.csv" # people to be scored, same columns

# [budget]                 # without: whatever `answers` allows is answered, with noise or not
# ledger = "sqlite:///ledger.db"  # made by: sottovoce ledger create --ledger ... --adjacency replace-one
# dataset = "people"

# [allow]
# answers = ["local-models", "alignment"]  # default: the private ones, and the alignment

# [caps]                   # for this coordinator, over all runs
# epsilon = 2.0
# rounds = 10000
# bytes = 10_000_000_000
# people = 100             # an alignment with fewer people in common is refused
"""

_WHERE: Final = """\
[secure]                   # joint training inside secure computation: sites connect to each other, beside FLARE
partners = ["NAME"]        # the sites that this one computes with; it must trust that they do not all work together
host = "HOST"              # the name or address at which these sites reach this one
ports = [9100, 9110]       # open to these sites: each run takes one port of this range
"""

_MORE: Final = """\
# engines = ["spu", "mpyc"]
# timeout = 600            # seconds that another site may take for anything
# [secure.fingerprints]    # what the owners told each other: openssl x509 -in identity/certificate.pem -fingerprint
# NAME = "SHA-256"         #   -sha256 -noout. With it not even the authority can put another site in its place
"""

_SITE_PARTY: Final = _SITE_TABLE + "\n" + "".join(f"# {line}\n" for line in _WHERE.splitlines()) + _MORE

_SITE_HELPER: Final = f"""\
# What this site allows. It has no table: it computes with the others, where nobody sees anything. Private: it is never
# sent. Fill in this section before the start.

{_WHERE}{_MORE}
# [caps]                   # for this coordinator, over all runs
# rounds = 10000
# bytes = 10_000_000_000
"""

_SITE_COORDINATOR: Final = _SITE_PARTY.replace(
    "bounds and categories, not taken from the data", "bounds and categories; it names the target"
)

_README_PARTY: Final = """\
Start-up kit of {site}, a party of federation {federation}.

1. Keep this folder private (mode 0700): startup/client.key is who you are to the others.
2. Fill in site.toml: your table, your schema, your budget, what you allow.
3. Start:   sottovoce vertical party {site}
   It prints what the site will and will not do, connects to {host}, port {port} (outgoing only), and waits for runs.

local/ holds settings that close what is unsafe; the site does not start if they were changed.
identity/ is who you are to other sites in joint computations: [secure] in site.toml.
state/ holds what was asked of you, your parts of models, and the log.
"""

_README_HELPER: Final = """\
Start-up kit of {site}, a helper of federation {federation}: it has no table, and computes with the others.

1. Keep this folder private (mode 0700): startup/client.key and identity/key.pem are who you are to the others.
2. Fill in site.toml: whom you compute with, where they reach you.
3. Start:   sottovoce vertical party {site}
   It connects to {host}, port {port}, and waits for runs. In a run the other sites connect to the ports of site.toml.

A helper sees random numbers. Together with one other site that computes it could see everything: do not share what you
are sent with anybody.
"""

_README_COORDINATOR: Final = """\
Start-up kit of {site}, the coordinator of federation {federation}.

1. Keep this folder private (mode 0700): startup/server.key and lead/startup/client.key are who you are to the others.
2. Fill in site.toml: your table with the labels, your schema, your budget.
3. Start:   sottovoce vertical coordinator {site}
   It listens on port {port}; the parties reach it as {host}.
4. Train:   sottovoce vertical train {site} ...      Score:   sottovoce vertical predict {site} ...

local/ holds settings that close what is unsafe; the site does not start if they were changed.
runs/ holds the results, state/ FLARE's jobs and the log.
"""

_README_AUTHORITY: Final = """\
The authority of federation {federation}: rootCA.key signs the certificates of its sites.

Whoever has rootCA.key can join the federation as any site, or pose as the coordinator. It is not needed to run: keep
it offline, at one organisation that all trust with this (usually the coordinator's), and never in a kit. It is needed
again to add a party: sottovoce vertical provision federation.toml --out OUT --add NAME.
"""
