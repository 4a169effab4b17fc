"""The federation's public file: what it says, and each wrong entry with its remedy."""

import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.vertical.flare.federation import Federation

GOOD = """
name = "readmission"
[coordinator]
name = "insurer"
host = "localhost"
port = 8002
[[party]]
name = "north"
[[party]]
name = "bank"
"""


def read(tmp_path, text):
    path = tmp_path / "federation.toml"
    path.write_text(text, encoding="utf-8")
    return Federation.read(path)


def test_a_federation(tmp_path):
    read_back = read(tmp_path, GOOD)
    assert (read_back.name, read_back.coordinator, read_back.host, read_back.port) == (
        "readmission", "insurer", "localhost", 8002,
    )  # fmt: skip
    assert read_back.parties == ("north", "bank")
    assert read_back.names == ("insurer", "north", "bank")
    assert read_back.on_one_machine


def test_a_helper_has_no_table(tmp_path):
    """It is a party of the federation, and holds no columns."""
    text = GOOD + '[[party]]\nname = "notary"\nhelper = true\n'
    read_back = read(tmp_path, text)
    assert read_back.parties == ("north", "bank", "notary")
    assert (read_back.with_tables, read_back.helpers) == (("north", "bank"), ("notary",))
    assert read(tmp_path, text.replace("true", "false")).helpers == ()
    with pytest.raises(ParameterError, match="all parties are helpers"):
        read(tmp_path, GOOD.replace("[[party]]", "[[party]]\nhelper = true"))


@pytest.mark.parametrize("host", ["vertical.insurer.example", "10.0.0.7", "insurer", "a-b.c"])
def test_hosts(tmp_path, host):
    assert not read(tmp_path, GOOD.replace("localhost", host)).on_one_machine


@pytest.mark.parametrize(
    ("old", "new", "entry", "remedy"),
    [
        ('name = "readmission"', "", "the file name", "it is missing"),
        ('name = "readmission"', 'name = "../up"', "'../up'", "letters, digits"),
        ("[coordinator]", "[centre]", "'centre'", "coordinator"),
        ('name = "insurer"', 'name = "insurer.example"', "[coordinator] name", "letters, digits"),
        ('name = "north"', 'name = "server"', "[[party]] 1 name = 'server'", "reserved"),
        ('name = "north"', 'name = "Authority"', "'Authority'", "reserved"),
        ('name = "bank"', 'name = "NORTH"', "[[party]] 2 name = 'NORTH'", "name of its own"),
        ('name = "bank"', 'name = "insurer"', "[[party]] 2 name = 'insurer'", "name of its own"),
        ('name = "bank"', 'name = "' + "b" * 41 + '"', "[[party]] 2 name", "at most 40"),
        ('name = "bank"', 'name = "-b"', "[[party]] 2 name", "first a letter"),
        ('name = "bank"', 'name = "bank"\nport = 3', "'port'", "name, helper"),
        ('name = "bank"', 'name = "bank"\nhelper = "yes"', "[[party]] 2 helper must be true", "got 'yes'"),
        ('name = "bank"', 'name = "bank"\n[[party]]', "[[party]] 3 name must be a name", "it is missing"),
        ('host = "localhost"', 'host = "https://insurer.example"', "host", "without https://"),
        ('host = "localhost"', 'host = "insurer.example:8002"', "host", "and port"),
        ('host = "localhost"', 'host = "' + "h" * 65 + '"', "host", "at most 64"),
        ('host = "localhost"', 'host = "bank"', "host = 'bank'", "Rename the party"),
        ("port = 8002", 'port = "8002"', "[coordinator] port must be", "1 to 65535, such as 8002; got '8002'"),
        ("port = 8002", "port = 65536", "[coordinator] port must be", "got 65536"),
        ("port = 8002", "port = true", "[coordinator] port must be", "got True"),
        ("port = 8002", "", "port must be", "such as 8002; it is missing"),
        ("port = 8002", "port = ", "TOML", "line"),
        ("port = 8002", 'port = 8002\nkey = "secret"', "'key'", "name, host, port"),
    ],
)
def test_wrong_entries(tmp_path, old, new, entry, remedy):
    assert old in GOOD
    with pytest.raises(ParameterError) as told:
        read(tmp_path, GOOD.replace(old, new, 1))
    assert "federation.toml: " in str(told.value)
    assert entry in str(told.value)
    assert remedy in str(told.value)


def test_nobody_but_the_coordinator(tmp_path):
    alone = GOOD.partition("[[party]]")[0]
    for text in (alone, alone + "[party]\nname = 'a'\n", "party = []\n" + alone, "party = [1]\n" + alone):
        with pytest.raises(ParameterError, match=r"\[\[party\]\] is missing"):
            read(tmp_path, text)


def test_too_many(tmp_path):
    many = "".join(f"[[party]]\nname = 'p{i}'\n" for i in range(100))
    with pytest.raises(ParameterError, match="at most 99"):
        read(tmp_path, GOOD.partition("[[party]]")[0] + many)


def test_files_that_are_none(tmp_path):
    with pytest.raises(ParameterError, match="No such file"):
        Federation.read(tmp_path / "absent.toml")
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    with pytest.raises(ParameterError, match="UTF-8"):
        Federation.read(tmp_path / "latin.toml")
