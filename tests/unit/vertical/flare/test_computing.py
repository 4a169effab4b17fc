"""What an owner writes under [secure], and the site of a helper, which has no table."""

import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.vertical.engines.site import ENGINES
from sottovoce.vertical.flare.notice import site_history
from sottovoce.vertical.flare.provisioning import kit_text
from sottovoce.vertical.flare.site import Site
from sottovoce.vertical.flare.site_file import Caps
from support.site import make_site

DATA = '[data]\ntable = "people.csv"\nschema = "people.toml"\nid = "person"\n'
SECURE = '[secure]\npartners = ["insurer", "notary"]\nhost = "north.example"\nports = [9100, 9110]\n'
DIGEST = "AB" * 32


def read(folder, text=DATA + SECURE, **facts):
    return Site.read(make_site(folder, site=text, **facts))


def test_whom_a_site_computes_with_and_where_it_is(tmp_path):
    site = read(tmp_path)
    assert site.computing.partners == ("insurer", "notary")
    assert (site.computing.host, site.computing.ports) == ("north.example", (9100, 9110))
    assert (site.computing.engines, site.computing.timeout) == (ENGINES, 600.0)
    assert site.computing.identity == tmp_path / "identity"
    assert site.computing.fingerprints is None
    assert read(tmp_path, DATA).computing is None


def test_fingerprints_as_openssl_prints_them(tmp_path):
    colons = ":".join(DIGEST[i : i + 2] for i in range(0, 64, 2))
    text = (
        DATA
        + SECURE
        + f'engines = ["shamir"]\ntimeout = 30\n[secure.fingerprints]\nnotary = "sha256 Fingerprint={colons}"\n'
    )
    site = read(tmp_path, text + f'insurer = "{DIGEST}"\n')
    assert site.computing.fingerprints == {"notary": DIGEST.lower(), "insurer": DIGEST.lower()}
    assert (site.computing.engines, site.computing.timeout) == (("shamir",), 30.0)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('partners = ["insurer", "notary"]', "", "partners must be a list of the sites .* it is missing"),
        ('["insurer", "notary"]', "[]", 'out of "insurer", "bank", "notary"'),
        ('["insurer", "notary"]', '"insurer"', "partners must be a list"),
        ('"notary"]', '"notery"]', "'notery', which is none of .* Did you mean 'notary'"),
        ('"notary"]', '"north"]', "'north', which is none of"),
        ('host = "north.example"', "", "host must be the host name .* it is missing"),
        ("north.example", "https://north.example", "without https"),
        ("north.example", "north.example:9100", "and port"),
        ("north.example", "", "host must be"),
        ("ports = [9100, 9110]", "", "ports must be the first and the last .* it is missing"),
        ("[9100, 9110]", "[9110, 9100]", "ports must be"),
        ("[9100, 9110]", "[0, 9100]", "ports must be"),
        ("[9100, 9110]", "[9100, 70000]", "ports must be"),
        ("[9100, 9110]", "[true, 9110]", "ports must be"),
        ("[9100, 9110]", "9100", "ports must be"),
        ("[9100, 9110]", '[9100, 9110]\nengines = "spu"', "engines must be a list"),
        ("[9100, 9110]", "[9100, 9110]\nengines = []", "engines must be a list"),
        ("[9100, 9110]", '[9100, 9110]\nengines = ["semi2k"]', '\'semi2k\', which is none of "spu", "shamir"'),
        ("[9100, 9110]", "[9100, 9110]\ntimeout = 0", "timeout must be"),
        ("[9100, 9110]", '[9100, 9110]\ntimeout = "long"', "timeout must be"),
        ("[9100, 9110]", '[9100, 9110]\nfingerprints = "ab"', r"\[secure.fingerprints\]"),
        (
            "[9100, 9110]",
            '[9100, 9110]\nfingerprints = {bank = "ab"}',
            "the unknown key 'bank'. There are insurer, notary",
        ),
        ("[9100, 9110]", '[9100, 9110]\nfingerprints = {notary = "ab"}', "64 hexadecimal digits"),
        ("[9100, 9110]", "[9100, 9110]\nfingerprints = {notary = 3}", "64 hexadecimal digits"),
        ("[9100, 9110]", "[9100, 9110]\npartner = 3", "Did you mean 'partners'"),
    ],
)
def test_each_wrong_entry_is_named_with_its_remedy(tmp_path, old, new, said):
    with pytest.raises(ParameterError, match=said) as caught:
        read(tmp_path, DATA + SECURE.replace(old, new))
    assert str(caught.value).startswith(str(tmp_path / "site.toml"))


def test_a_helper_reads_no_table_and_answers_joint_computations_alone(tmp_path):
    secure = SECURE.replace("notary", "north")
    site = read(tmp_path, f"{secure}[caps]\nrounds = 100\n", name="notary")
    assert (site.table, site.schema_file, site.caps) == (None, None, Caps(rounds=100))
    assert site.is_helper and site.allowed("score") == frozenset()
    assert site.allowed("train") <= {"secure"}
    assert site_history(site)["helper"] is True
    helper = site.open_party()
    assert helper.name == "notary" and helper.computing is site.computing


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"section \[secure\] is missing"),
        (DATA + SECURE, r"unknown section \[data\] for notary, a helper, which has no table"),
        (SECURE + '[budget]\nledger = "x"\ndataset = "y"\n', r"unknown section \[budget\] for notary, a helper"),
        (SECURE + "[caps]\nepsilon = 1.0\n", r"\[caps\] has the unknown key 'epsilon'. There are rounds, bytes"),
    ],
)
def test_what_is_not_for_a_helper_is_refused(tmp_path, text, said):
    with pytest.raises(ParameterError, match=said):
        read(tmp_path, text.replace('"notary"', '"north"'), name="notary")


def test_the_texts_of_kits_say_what_the_section_has(tmp_path):
    """A helper's needs its places filled in; taking the marks away elsewhere gives the same section."""
    filled = kit_text("site_helper.toml").replace("NAME", "insurer").replace("HOST", "notary.example")
    assert read(tmp_path / "notary", filled, name="notary").computing.partners == ("insurer",)
    for name, text in (("north", kit_text("site_party.toml")), ("insurer", kit_text("site_coordinator.toml"))):
        before, mark, after = text.partition("# [secure]")
        lines = (mark + after).splitlines()[:4]
        section = (
            "\n".join(line.removeprefix("# ") for line in lines).replace("NAME", "bank").replace("HOST", "x.example")
        )
        site = read(tmp_path / name, before.replace("# id", "id") + section, name=name)
        assert site.computing.ports == (9100, 9110)
