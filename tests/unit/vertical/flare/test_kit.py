"""Start-up kits: what is in them, who can read it, and that a site starts from its own files.

No key is overwritten, or kept where it is not needed.
"""

import datetime
import logging
import os
import shlex
import shutil
import socket
import ssl
import tempfile
import threading
import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sottovoce._kept import PrivateFolder
from sottovoce.cli import app
from sottovoce.exceptions import ParameterError, SottovoceWarning, StorageError
from sottovoce.vertical.flare import kit as kit_module
from sottovoce.vertical.flare.hardening import closed
from sottovoce.vertical.flare.kit import Kit, clear_leftovers, provision
from sottovoce.vertical.flare.processes import check_site, run_site, site_process
from support.ports import free_ports
from support.site import KITS

pytest.importorskip("nvflare", reason="start-up kits need the extra [vertical]")
x509 = pytest.importorskip("cryptography.x509")

SITES = ("insurer", "north-west", "bank")


def certificate(path):
    return x509.load_pem_x509_certificate(path.read_bytes())


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ------------------------------------------------------------------ what is in them


def test_a_folder_for_each_site_that_nobody_else_can_read(kits):
    assert {path.name for path in kits.iterdir()} == {"authority", *SITES}
    shared = {"README.txt", "federation.toml", "site.toml", "startup/rootCA.pem"}
    shared |= {f"identity/{name}.pem" for name in ("certificate", "key", "authority")}
    assert {str(path) for path in contents(kits / "bank")} == shared | {"startup/client.crt", "startup/client.key"}
    server = {"startup/server.crt", "startup/server.key"}
    assert {str(path) for path in contents(kits / "insurer")} == shared | server
    for name in SITES:
        kit = Kit.open(kits / name)
        assert (kit.name, kit.kind) == (name, "coordinator" if name == "insurer" else "party")
        assert kit.federation.names == SITES
        assert kit.state.is_dir()
        kit.check()
    assert [path for path in (kits, *kits.rglob("*")) if path.stat().st_mode & 0o077] == []


def test_every_key_is_in_one_place_only(kits):
    found = contents(kits)
    keys = [path for path in found if path.suffix == ".key" or path.name == "key.pem"]
    assert len(keys) == 7
    for key in keys:
        assert [path for path in found if found[key] in found[path]] == [key]


def test_certificates_have_the_names_of_who_shows_them_and_are_of_the_authority(kits):
    """An identity has the site's name, also the coordinator's, whose server has its host's; it opens no connection."""
    from cryptography.x509.oid import ExtendedKeyUsageOID

    root = certificate(kits / "authority" / "rootCA.pem")
    names = {name: name for name in SITES} | {"insurer": "localhost"}
    shown = {f"{name}/startup/{'server' if name == 'insurer' else 'client'}.crt": to for name, to in names.items()}
    shown |= {f"{name}/identity/certificate.pem": name for name in SITES}
    for path, name in shown.items():
        one = certificate(kits / path)
        one.verify_directly_issued_by(root)
        assert [each.value for each in one.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)] == [name]
        if "identity" in path:
            usages = set(one.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
            assert not usages & {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}


def test_a_party_that_joins_later_has_a_kit_of_the_same_authority_and_no_key_is_overwritten(
    kits, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        "sottovoce.vertical.flare.kit._LASTS", datetime.timedelta(days=5000)
    )  # longer than the authority
    federation, out = tmp_path / "federation.toml", shutil.copytree(kits, tmp_path / "out")
    text = KITS.format(name="trial", port=8110)
    federation.write_text(text, encoding="utf-8")
    before = contents(out)
    with pytest.raises(ParameterError, match=r"'clinic'.*Add a section"):
        provision(federation, out, "clinic")
    with pytest.raises(ParameterError, match="exists, and keys are never overwritten"):
        provision(federation, out)
    (tmp_path / "half" / SITES[-1]).mkdir(parents=True)
    with pytest.raises(ParameterError, match=f"{SITES[-1]}: exists, and keys are never overwritten"):
        provision(federation, tmp_path / "half")
    assert [path.name for path in (tmp_path / "half").iterdir()] == [SITES[-1]]
    federation.write_text(text + '[[party]]\nname = "clinic"\n', encoding="utf-8")
    with pytest.raises(ParameterError, match=r"rootCA\.pem: No such file"):
        provision(federation, tmp_path, "clinic")
    kit = Kit.open(provision(federation, out, "clinic")["clinic"])
    kit.check()
    certificate(kit.folder / "startup" / "client.crt").verify_directly_issued_by(certificate(kit.authority))
    ends = {certificate(path).not_valid_after_utc for path, _, _ in kit.certificates}
    assert ends == {certificate(kit.authority).not_valid_after_utc}
    assert {path: content for path, content in contents(out).items() if path.parts[0] != "clinic"} == before
    assert not [path for path in out.rglob("*") if path.stat().st_mode & 0o077]
    with pytest.raises(ParameterError, match="never overwritten"):
        provision(federation, out, "clinic")
    shutil.rmtree(kit.folder)
    federation.write_text(federation.read_text().replace('"trial"', '"other"'), encoding="utf-8")
    with pytest.raises(ParameterError, match="authority of federation 'trial', not of 'other'"):
        provision(federation, out, "clinic")
    assert contents(out) == before


def test_without_the_engine(monkeypatch, tmp_path):
    def absent(name):
        raise closed.PackageNotFoundError

    monkeypatch.setattr(closed, "version", absent)
    with pytest.raises(ParameterError, match=r"pip install 'sottovoce\[vertical\]'"):
        provision(tmp_path / "federation.toml", tmp_path / "out")
    monkeypatch.setattr(closed, "version", lambda name: "2.8.1")
    with pytest.raises(ParameterError, match=r"2\.8\.1 has known holes"):
        closed.require_engine()
    for good in ("2.9.0", "2.10.0rc1", "3.0"):
        monkeypatch.setattr(closed, "version", lambda name, good=good: good)
        closed.require_engine()


def test_the_command_makes_kits_once(tmp_path):
    (tmp_path / "federation.toml").write_text(KITS.format(name="trial", port=free_ports(1)[0]), encoding="utf-8")
    words = ["vertical", "provision", str(tmp_path / "federation.toml"), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert all(name in done.stdout for name in SITES) and "can sign new sites" in done.stdout
    again = CliRunner().invoke(app, words)
    assert again.exit_code == 2 and "never overwritten" in again.output


def test_temporary_files_are_the_sites_own_and_do_not_stay(copied):
    """A process that was killed could not remove the keys of its last joint computation."""
    party = copied("bank")
    with site_process(party):
        place = Path(tempfile.gettempdir())
    assert place.is_relative_to(party.state) and place.stat().st_mode & 0o077 == 0
    for name in ("sottovoce-seat-1", "another"):
        (place / name).mkdir()
        (place / name / "key.pem").touch()
    clear_leftovers(party.state)
    assert [path.name for path in place.iterdir()] == ["another"]


# ------------------------------------------------------------------ what is not its own


@pytest.mark.parametrize("place", ["startup/client.key", "startup/rootCA.pem", "identity/key.pem"])
def test_a_file_that_is_gone(copied, place):
    party = copied("bank")
    (party.folder / place).unlink()
    with pytest.raises(ParameterError, match=f"{place}: missing"):
        party.check()


@pytest.mark.parametrize("place", ["", "startup/client.key", "identity/key.pem", "state", "startup"])
def test_what_others_could_read(copied, place):
    party = copied("bank")
    party.make_folders()
    path = party.folder / place
    path.chmod(path.stat().st_mode | 0o040)
    with pytest.raises(ParameterError, match="chmod -R go="):
        party.check()


EACH = [("insurer", "startup/server"), ("insurer", "identity/certificate"),
        ("bank", "startup/client"), ("bank", "identity/certificate")]  # fmt: skip


@pytest.mark.parametrize(("site", "place"), EACH)
def test_a_key_or_a_certificate_of_another_federation(folder, copied, site, place):
    """With the key of another kit every connection would fail, and nobody would say why."""
    kit = copied(site)
    shown, key = ("certificate.pem", "key.pem") if "identity" in place else (f"{place}.crt", f"{place}.key")
    where = "identity" if "identity" in place else ""
    mine, theirs = kit.folder / where, folder / "other" / site / where
    (mine / key).write_bytes((theirs / key).read_bytes())
    with pytest.raises(ParameterError, match="this is not the key of") as told:
        kit.check()
    assert str(mine / key) in str(told.value)
    (mine / shown).write_bytes((theirs / shown).read_bytes())
    with pytest.raises(ParameterError, match=r"rootCA\.pem has not signed it"):
        kit.check()
    (mine / key).write_bytes(b"no key")
    with pytest.raises(ParameterError, match="certificate or key cannot be read"):
        kit.check()


def test_the_startup_folder_of_another_site_is_refused_by_name(kits, copied):
    """It would connect under the other's name, and answer with this site's table."""
    party = copied("bank")
    for name in ("client.crt", "client.key"):
        shutil.copyfile(kits / "north-west" / "startup" / name, party.folder / "startup" / name)
    with pytest.raises(ParameterError, match=r"certificate of 'north-west', and this is the kit of 'bank'.* two sites"):
        check_site(party)


@pytest.mark.parametrize(("days", "said"), [(-1, "ended on"), (10, "ends on"), (60, None), (5000, "in the future")])
def test_certificates_begin_and_end(copied, monkeypatch, days, said):
    party = copied("bank")
    now = party.expires - datetime.timedelta(days=days)

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return now

    monkeypatch.setattr(kit_module.datetime, "datetime", Clock)
    if said is None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            party.check()
    elif said == "ends on":
        with pytest.warns(SottovoceWarning, match=f"ends on {party.expires:%Y-%m-%d}"):
            party.check()
    else:
        with pytest.raises(ParameterError, match=said):
            party.check()


def test_what_is_no_kit(tmp_path, copied):
    with pytest.raises(ParameterError, match="not a start-up kit"):
        Kit.open(tmp_path)
    file = copied("bank").folder / "federation.toml"
    file.write_text(file.read_text().replace('"bank"', '"shop"'))
    with pytest.raises(ParameterError, match=r"federation\.toml: no site has the name of this kit, 'bank'"):
        Kit.open(file.parent)


# ------------------------------------------------------------------ starting


def test_a_port_that_is_taken(copied):
    coordinator = copied("insurer")
    check_site(coordinator)
    port = coordinator.federation.port
    taken = pytest.raises(ParameterError, match=f"port {port}: Address already in use")
    with socket.create_server(("localhost", port)), taken:
        check_site(coordinator)


def test_a_site_is_one_process(copied):
    """Of a party, and of a coordinator: one run at a time."""
    for name in ("bank", "insurer"):
        kit = copied(name)
        with site_process(kit), pytest.raises(StorageError, match=r"the site .* is held by another process"):
            run_site(kit)


def test_whoever_looks_at_a_kit_for_a_moment_keeps_no_site_from_starting(copied):
    party = copied("bank")
    looking = PrivateFolder(party.state, "the site")
    threading.Timer(0.05, looking.close).start()
    with site_process(party):
        pass


def test_a_sites_process_trusts_the_federation_alone_and_others_read_nothing_of_it(copied):
    """FLARE's client would trust the authorities of the system beside it; all is as before afterwards."""
    party = copied("bank")
    before = dict(os.environ), tempfile.tempdir, logging.getLogger().handlers[:]
    with site_process(party):
        assert len(ssl.create_default_context(ssl.Purpose.SERVER_AUTH).get_ca_certs()) == 1
        logging.getLogger("sottovoce").warning("a line")
        (party.state / "made").touch()
    assert "a line" in (party.state / "log.txt").read_text()
    assert not [path for path in party.state.rglob("*") if path.stat().st_mode & 0o077]
    assert (dict(os.environ), tempfile.tempdir, logging.getLogger().handlers[:]) == before


@pytest.mark.parametrize(
    ("command", "options", "wanted"),
    [("party", ["--check"], "party"), ("train", ["--resume", "0a1b"], "coordinator"),
     ("predict", ["RUN", "--out", "none.csv"], "coordinator")],
)  # fmt: skip
def test_a_kit_of_the_other_kind_is_answered_with_the_line_that_starts_it(kits, tmp_path, command, options, wanted):
    kind, name = ("coordinator", "insurer") if wanted == "party" else ("party", "bank")
    folder = shutil.copytree(kits / name, tmp_path / "of a site")
    said = CliRunner().invoke(app, ["vertical", command, str(folder), *options])
    assert said.exit_code == 2
    line = " ".join(said.output.split())
    assert f"the kit of {name}, which is a {kind}. Give that of a {wanted}" in line
    typed = shlex.split(line.partition("this one is for: ")[2])
    assert typed == ["sottovoce", "vertical", "train" if kind == "coordinator" else kind, str(folder)]
