"""What is written in federation.toml and site.toml, and each wrong entry with its remedy."""

import re

import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.vertical.engines.site import ENGINES
from sottovoce.vertical.flare.federation import Federation
from sottovoce.vertical.flare.notice import site_history
from sottovoce.vertical.flare.provisioning import kit_text
from sottovoce.vertical.flare.site import Site
from sottovoce.vertical.flare.site_file import Caps
from support.site import FEDERATION, make_ledger, make_site, people

DATA = '[data]\ntable = "people.csv"\nschema = "people.toml"\nid = "person"\n'
SECURE = '[secure]\npartners = ["insurer", "notary"]\nhost = "north.example"\nports = [9100, 9110]\n'
BUDGET = '[budget]\nledger = "sqlite:///ledger.db"\ndataset = "people"\n'
DIGEST = "AB" * 32


def read(folder, text=DATA, **facts):
    return Site.read(make_site(folder, site=text, **facts))


def federation(folder, text):
    (folder / "federation.toml").write_text(text, encoding="utf-8")
    return Federation.read(folder / "federation.toml")


def test_a_federation(tmp_path):
    found = federation(tmp_path, FEDERATION)
    assert (found.name, found.coordinator, found.host, found.port) == ("trial", "insurer", "localhost", 8140)
    assert found.names == ("insurer", *found.parties) == ("insurer", "north", "bank", "notary")
    assert (found.with_tables, found.helpers) == (("north", "bank"), ("notary",))
    for host, near in (("localhost", True), ("127.3.0.1", True), ("10.0.0.7", False), ("a-b.example", False)):
        found = federation(tmp_path, FEDERATION.replace("localhost", host))
        assert (found.on_one_machine, found.listens_at) == (near, host if near else "0.0.0.0")


ALONE = FEDERATION.partition("[[party]]")[0]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "trial"', "", "the file name must be a name of at most 40 letters, .* it is missing"),
        ('"trial"', '"../up"', "the file name must be .* got '../up'"),
        ("[coordinator]", "[centre]", "'centre'.* There are name, coordinator, party"),
        ('"north"', '"server"', r"\[\[party\]\] 1 name = 'server': this name is reserved"),
        ('"north"', '"Authority"', "'Authority': this name is reserved"),
        ('"bank"', '"NORTH"', r"\[\[party\]\] 2 name = 'NORTH': another site is named 'north'.* name of its own"),
        ('"bank"', '"insurer"', r"\[\[party\]\] 2 name = 'insurer': another site"),
        ('"bank"', f'"{"b" * 41}"', "at most 40"),
        ('"bank"', '"-b"', "the first a letter"),
        ('"bank"', '"bank"\nport = 3', r"\[\[party\]\] 2 has the unknown key 'port'.* There are name, helper"),
        ('"bank"', '"bank"\nhelper = "yes"', r"\[\[party\]\] 2 helper must be true .* got 'yes'"),
        (FEDERATION, f'{ALONE}[[party]]\nname = "a"\nhelper = true\n', "all parties are helpers"),
        ('"localhost"', '"https://insurer.example"', "host must be .* without https://"),
        ('"localhost"', '"insurer.example:8002"', "host must be .* and port"),
        ('"localhost"', f'"{"h" * 65}"', "host must be .* at most 64"),
        ('"localhost"', '"bank"', "host = 'bank': a party has this name. Rename the party"),
        ("8140", '"8140"', "port must be a whole number from 1 to 65535, such as 8002; got '8140'"),
        ("8140", "65536", "port must be .* got 65536"),
        ("8140", "true", "port must be .* got True"),
        ("8140", "", "not valid TOML: .*line"),
        (FEDERATION, ALONE, r"\[\[party\]\] is missing"),
        (FEDERATION, f"{ALONE}[party]\nname = 'a'\n", r"\[\[party\]\] is missing"),
        (FEDERATION, f"party = [1]\n{ALONE}", r"\[\[party\]\] is missing"),
        (FEDERATION, ALONE + "".join(f"[[party]]\nname = 'p{i}'\n" for i in range(100)), "at most 99"),
    ],
)
def test_a_wrong_entry_of_a_federation_is_named_with_its_remedy(tmp_path, old, new, said):
    assert old in FEDERATION
    with pytest.raises(ParameterError, match=said) as caught:
        federation(tmp_path, FEDERATION.replace(old, new, 1))
    assert str(caught.value).startswith(f"{tmp_path}/federation.toml: ")


def test_files_that_are_none(tmp_path):
    with pytest.raises(ParameterError, match=r"absent\.toml: cannot read it: No such file"):
        Federation.read(tmp_path / "absent.toml")
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    with pytest.raises(ParameterError, match="UTF-8"):
        Federation.read(tmp_path / "latin.toml")


# ------------------------------------------------------------------ site.toml


def test_caps_accounts_and_partners(tmp_path):
    make_ledger(tmp_path)
    colons = ":".join(DIGEST[i : i + 2] for i in range(0, 64, 2))  # as openssl prints them
    caps = "[caps]\nepsilon = 0.5\nrounds = 10\nbytes = 1_000\npeople = 5\n"
    more = f'engines = ["shamir"]\ntimeout = 30\n[secure.fingerprints]\nnotary = "sha256 Fingerprint={colons}"\n'
    site = read(tmp_path, f'{DATA}{BUDGET}{caps}{SECURE}{more}insurer = "{DIGEST}"\n')
    assert site.caps == Caps(0.5, 10, 1000, 5)
    assert site.open_party().least_people == 5
    assert site.budget.ledger == f"sqlite:///{tmp_path.resolve()}/ledger.db"
    found = site.computing
    assert (found.partners, found.host, found.ports) == (("insurer", "notary"), "north.example", (9100, 9110))
    assert (found.engines, found.timeout, found.identity) == (("shamir",), 30.0, tmp_path / "identity")
    assert found.fingerprints == {"notary": DIGEST.lower(), "insurer": DIGEST.lower()}
    found = read(tmp_path, DATA + SECURE).computing
    assert (found.engines, found.timeout, found.fingerprints) == (ENGINES, 600.0, None)
    assert read(tmp_path).computing is None


PORTS = "ports = [9100, 9110]\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[data", "not valid TOML"),
        ("", r"the section \[data\] is missing"),
        ("data = 3", r"data must be a section, \[data\]; got 3"),
        (DATA + "[budgett]\n", r"unknown section \[budgett\]\. Did you mean 'budget'\?"),
        (DATA + '[caps]\nround = 3', r"\[caps\] has the unknown key 'round'\. Did you mean 'rounds'\?"),
        (DATA + "[caps]\nrounds = 0", r"\[caps\] rounds must be a whole number >= 1; got 0"),
        (DATA + "[caps]\nbytes = 1.5", r"\[caps\] bytes must be a whole number >= 1; got 1\.5"),
        (DATA + "[caps]\nepsilon = -1", r"\[caps\] epsilon must be"),
        (DATA + "[caps]\nepsilon = 1", r"\[caps\] epsilon is a share of the budget, and there is none"),
        (DATA.replace('id = "person"\n', "") + "[caps]\npeople = 3", r"\[caps\] people limits alignments"),
        (DATA + BUDGET + '[allow]\nanswers = ["exact"]\n', r"\[allow\] answers has 'exact', which has no noise"),
        (DATA + '[allow]\nanswers = ["local-modles"]', r"'local-modles', which is none of .* Did you mean 'local-mod"),
        (DATA + '[allow]\nanswers = "score"', r"\[allow\] answers must be a list of names"),
        (DATA + "[trial]\nrandom_state = true", r"\[trial\] random_state must be a whole number >= 0; got True"),
        (DATA.replace("people.csv", "poeple.csv"), r"\[data\] table: cannot read .*poeple\.csv: No such file"),
        (DATA.replace("people.csv", "."), r"\[data\] table: .* is not a regular file"),
        (DATA.replace('"people.csv"', "3"), r"\[data\] table must be a text between quotes; got 3"),
        ('[data]\nschema = "people.toml"', r"\[data\] table must be a text between quotes; it is missing"),
        *((DATA + SECURE.replace(old, new), said) for old, new, said in (
            ('["insurer", "notary"]', "[]", 'partners must be a list of .* out of "insurer", "bank", "notary"'),
            ('"notary"]', '"notery"]', "'notery', which is none of .* Did you mean 'notary'"),
            ('"notary"]', '"north"]', "'north', which is none of"),
            ("north.example", "north.example:9100", "host must be .* and port"),
            *((PORTS, f"ports = {wrong}\n", "ports must be the first and the last") for wrong in (
                "[9110, 9100]", "[0, 9100]", "[9100, 70000]", "[true, 9110]", "[9100]", "9100",
            )),
            (PORTS, "", "ports must be .* it is missing"),
            (PORTS, PORTS + "engines = []", "engines must be a list"),
            (PORTS, PORTS + 'engines = ["semi2k"]', '\'semi2k\', which is none of "spu", "shamir"'),
            (PORTS, PORTS + "timeout = 0", "timeout must be"),
            (PORTS, PORTS + "timeout = 1e9", "timeout must be"),
            (PORTS, PORTS + 'fingerprints = "ab"', r"\[secure.fingerprints\]"),
            (PORTS, PORTS + 'fingerprints = {bank = "ab"}', "the unknown key 'bank'. There are insurer, notary"),
            (PORTS, PORTS + 'fingerprints = {notary = "ab"}', "64 hexadecimal digits"),
            (PORTS, PORTS + "fingerprints = {notary = 3}", "64 hexadecimal digits"),
        )),
    ],
)  # fmt: skip
def test_a_wrong_entry_of_a_site_is_named_with_its_remedy(tmp_path, text, said):
    with pytest.raises(ParameterError, match=said) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/site.toml: ")


def test_a_helper_reads_no_table_and_answers_joint_computations_alone(tmp_path):
    secure = SECURE.replace("notary", "north")
    site = read(tmp_path, f"{secure}[caps]\nrounds = 100\n", name="notary")
    assert (site.table, site.schema_file, site.caps) == (None, None, Caps(rounds=100))
    assert site.is_helper and site.allowed("score") == frozenset()
    assert site.allowed("train") == {"secure"}
    assert site_history(site)["helper"] is True
    helper = site.open_party()
    assert helper.name == "notary" and helper.computing is site.computing
    for text, said in (
        ("", r"section \[secure\] is missing"),
        (DATA + secure, r"unknown section \[data\] for notary, a helper, which has no table"),
        (secure + BUDGET, r"unknown section \[budget\] for notary, a helper"),
        (secure + "[caps]\nepsilon = 1.0\n", r"\[caps\] has the unknown key 'epsilon'. There are rounds, bytes"),
    ):
        with pytest.raises(ParameterError, match=said):
            read(tmp_path, text, name="notary")


@pytest.mark.parametrize(("name", "kind"), [("north", "party"), ("insurer", "coordinator"), ("notary", "helper")])
def test_every_line_of_a_kits_file_is_understood(tmp_path, name, kind):
    """With its places filled in, and the marks of comments taken away."""
    text = kit_text(f"site_{kind}.toml").replace('"NAME"', '"bank"').replace("HOST", "here.example")
    text = re.sub(r"(?m)^# (?=[\[a-z])", "", text).replace("# id", "id") if kind != "helper" else text
    people(8).to_csv(tmp_path / "new_people.csv", index=False)
    site = read(tmp_path, text, name=name)
    assert (site.computing.partners, site.computing.ports) == (("bank",), (9100, 9110))
    if kind != "helper":
        assert (site.caps.people, site.id_column, site.budget.dataset) == (100, "person", "people")
        assert site.scoring_table.name == "new_people.csv"
