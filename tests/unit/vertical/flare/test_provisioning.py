"""Start-up kits: what is in them, who can read it, and that no key is overwritten or kept where it is not needed."""

import os
import re
import ssl

import pytest
from typer.testing import CliRunner

from sottovoce.cli import app
from sottovoce.exceptions import ParameterError
from sottovoce.vertical.flare.hardening import closed as engine
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.provisioning import provision

pytest.importorskip("nvflare", reason="start-up kits need the extra [vertical]")
x509 = pytest.importorskip("cryptography.x509")

FEDERATION = """
name = "trial"
[coordinator]
name = "insurer"
host = "localhost"
port = 8110
[[party]]
name = "north-west"
[[party]]
name = "bank"
"""


@pytest.fixture(scope="module")
def kits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kits")
    (folder / "federation.toml").write_text(FEDERATION, encoding="utf-8")
    before = os.umask(0o022)  # what users have
    try:
        provision(folder / "federation.toml", folder / "out")
    finally:
        os.umask(before)
    return folder / "out"


def certificate(path):
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_a_site_is_known_by_its_own_name_in_joint_computations(kits):
    """The coordinator too, whose server has the name of its host; these certificates open no TLS connection."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from cryptography.x509.oid import ExtendedKeyUsageOID

    for name in ("insurer", "north-west", "bank"):
        folder = kits / name / "identity"
        shown, authority = certificate(folder / "certificate.pem"), certificate(folder / "authority.pem")
        shown.verify_directly_issued_by(authority)
        assert authority == certificate(kits / "authority" / "rootCA.pem")
        assert [each.value for each in shown.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)] == [name]
        assert load_pem_private_key((folder / "key.pem").read_bytes(), None).public_key() == shown.public_key()
        usages = set(shown.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
        assert not usages & {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
        assert Kit.open(kits / name).expires <= shown.not_valid_after_utc


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_folder_for_each_site(kits):
    assert sorted(path.name for path in kits.iterdir()) == ["authority", "bank", "insurer", "north-west"]
    shared = {"README.txt", "federation.toml", "site.toml", "startup/rootCA.pem"}
    shared |= {f"identity/{name}.pem" for name in ("certificate", "key", "authority")}
    assert files(kits / "bank") == shared | {"startup/client.crt", "startup/client.key"}
    lead = {f"lead/startup/{name}" for name in ("client.crt", "client.key", "rootCA.pem")}
    assert files(kits / "insurer") == shared | lead | {"startup/server.crt", "startup/server.key"}
    for name in ("insurer", "north-west", "bank"):
        kit = Kit.open(kits / name)
        assert (kit.name, kit.kind) == (name, "coordinator" if name == "insurer" else "party")
        assert kit.federation.names == ("insurer", "north-west", "bank")
        assert kit.state.is_dir()
        kit.check()


def test_nobody_else_on_the_machine_can_read_anything(kits):
    open_ones = [path for path in (kits, *kits.rglob("*")) if path.stat().st_mode & 0o077]
    assert open_ones == []


def test_every_key_is_in_one_place_only(kits):
    files = [*kits.rglob("*.key"), *kits.rglob("key.pem")]
    keys = {path.read_bytes(): path for path in files}
    assert len(keys) == len(files) == 8
    for key, path in keys.items():
        others = [file for file in kits.rglob("*") if file.is_file() and file != path and key in file.read_bytes()]
        assert others == []
    assert not [path for path in kits.rglob("*") if path.suffix in (".sh", ".ipynb", ".py")]


def test_certificates_are_of_the_authority(kits):
    root = certificate(kits / "authority" / "rootCA.pem")
    for path, name in {
        "insurer/startup/server.crt": "localhost", "bank/startup/client.crt": "bank",
        "north-west/startup/client.crt": "north-west", "insurer/lead/startup/client.crt": engine.LEAD,
    }.items():  # fmt: skip
        one = certificate(kits / path)
        one.verify_directly_issued_by(root)
        (common_name,) = one.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        assert common_name.value == name
        ssl.create_default_context().load_cert_chain(kits / path, (kits / path).with_suffix(".key"))


def test_nobody_but_the_lead_has_a_right(kits):
    """As FLARE reads the rights, of all commands that it has."""
    from nvflare.fuel.sec.authz import Authorizer, AuthzContext, Person
    from nvflare.security.security import COMMAND_CATEGORIES

    kit = Kit.open(kits / "bank")
    written = engine.settings(kit.kind, kit.name, kit.federation, kit.state)["local/authorization.json"]
    authorizer = Authorizer("bank", COMMAND_CATEGORIES)
    assert not authorizer.load_policy(written)
    rights = {*COMMAND_CATEGORIES, *COMMAND_CATEGORIES.values(), "byoc", "submit_job", "anything"}
    lead, another = Person(engine.LEAD, "insurer", "lead"), Person("mallory", "insurer", "lead")

    def allowed(who, submitter):
        return {right for right in rights if authorizer.authorize(AuthzContext(right, who, submitter))[0]}

    any_job = {"submit_job", "check_status", "get_job_meta", "list_jobs"}
    assert allowed(lead, another) == any_job
    assert allowed(lead, lead) == any_job | {"abort", "abort_job", "delete_job"}
    for role in ("project_admin", "org_admin", "member", "somebody"):
        assert allowed(Person(engine.LEAD, "insurer", role), lead) == set()


def test_existing_folders_are_not_touched(kits, tmp_path):
    federation = kits.parent / "federation.toml"
    (tmp_path / "bank").mkdir()
    with pytest.raises(ParameterError, match="bank: exists, and keys are never overwritten"):
        provision(federation, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["bank"]
    before = {path: path.read_bytes() for path in kits.rglob("*") if path.is_file()}
    with pytest.raises(ParameterError, match="exists"):
        provision(federation, kits)
    assert {path: path.read_bytes() for path in kits.rglob("*") if path.is_file()} == before


def test_a_party_that_joins_later(tmp_path):
    federation, out = tmp_path / "federation.toml", tmp_path / "out"
    federation.write_text(FEDERATION, encoding="utf-8")
    provision(federation, out)
    with pytest.raises(ParameterError, match=r"'clinic'.*Add a section"):
        provision(federation, out, "clinic")
    federation.write_text(FEDERATION + '[[party]]\nname = "clinic"\n', encoding="utf-8")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    kit = Kit.open(provision(federation, out, "clinic")["clinic"])
    kit.check()
    certificate(kit.folder / "startup" / "client.crt").verify_directly_issued_by(
        certificate(out / "authority" / "rootCA.pem")
    )
    assert {path: path.read_bytes() for path in before} == before
    assert not [path for path in out.rglob("*") if path.stat().st_mode & 0o077]
    with pytest.raises(ParameterError, match="never overwritten"):
        provision(federation, out, "clinic")


def test_a_party_joins_with_the_authority_of_its_federation(kits, tmp_path):
    other = tmp_path / "federation.toml"
    other.write_text(FEDERATION.replace('"trial"', '"other"').replace('"bank"', '"clinic"'), encoding="utf-8")
    with pytest.raises(ParameterError, match="authority of federation 'trial', not of 'other'"):
        provision(other, kits, "clinic")
    with pytest.raises(ParameterError, match=r"rootCA\.pem: No such file"):
        provision(other, tmp_path, "clinic")
    assert [path.name for path in tmp_path.iterdir()] == ["federation.toml"]


def test_without_the_engine(monkeypatch, tmp_path):
    def absent(name):
        raise engine.PackageNotFoundError

    monkeypatch.setattr(engine, "version", absent)
    with pytest.raises(ParameterError, match=r"pip install 'sottovoce\[vertical\]'"):
        provision(tmp_path / "federation.toml", tmp_path / "out")
    monkeypatch.setattr(engine, "version", lambda name: "2.8.1")
    with pytest.raises(ParameterError, match=r"2\.8\.1 has known holes"):
        engine.require_engine()
    for good in ("2.9.0", "2.10.0rc1", "3.0"):
        monkeypatch.setattr(engine, "version", lambda name, good=good: good)
        engine.require_engine()


# ------------------------------------------------------------------ the command line


def run(*words):
    return CliRunner().invoke(app, ["vertical", *map(str, words)])


def test_the_command(tmp_path):
    (tmp_path / "federation.toml").write_text(FEDERATION, encoding="utf-8")
    words = ("provision", tmp_path / "federation.toml", "--out", tmp_path / "out")
    done = run(*words)
    assert done.exit_code == 0, done.output
    for name, kind in (("insurer", "coordinator"), ("north-west", "party"), ("bank", "party")):
        assert re.search(rf"{name} +{kind} ", done.stdout)
        assert Kit.open(tmp_path / "out" / name).name == name
    assert "can sign new sites" in done.stdout
    again = run(*words)
    assert again.exit_code == 2
    assert "never overwritten" in again.output
    checked = run("coordinator", tmp_path / "out" / "insurer", "--check")
    assert checked.exit_code == 0, checked.output
    assert "closed" in checked.stdout
    wrong = run("coordinator", tmp_path / "out" / "bank", "--check")
    assert wrong.exit_code == 2
    assert "sottovoce vertical party" in wrong.output
