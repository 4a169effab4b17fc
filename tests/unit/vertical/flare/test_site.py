"""What owners write in federation.toml and site.toml, each wrong entry with its remedy, and the party that follows.

That is what it answers, and which parts of models it keeps.
"""

import re
import stat

import numpy as np
import pytest

from sottovoce.exceptions import LedgerError, ParameterError, SchemaError, TableError
from sottovoce.vertical.engines import ENGINES
from sottovoce.vertical.flare.federation import Federation
from sottovoce.vertical.flare.kit import kit_text
from sottovoce.vertical.flare.register import site_history
from sottovoce.vertical.flare.site import MOST_MODELS, Caps, Site
from sottovoce.vertical.mechanisms import PRIVATE
from sottovoce.vertical.protocol import Part
from sottovoce.vertical.requests.general import KeepWeights, Score, ShowColumns
from sottovoce.vertical.requests.local_models import TrainOnLabels
from sottovoce.vertical.wire import Done, Payload, Refused
from support.party import Line
from support.site import FEDERATION, SCHEMA, make_ledger, make_site, people

DATA = '[data]\ntable = "people.csv"\nschema = "people.toml"\nid = "person"\n'
SCORING = '[scoring]\ntable = "new.csv"\n'
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
        assert found.listens_at == (host if near else "0.0.0.0")


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


# ------------------------------------------------------------------ the party


def test_a_party_has_the_table_the_schema_and_the_bounds_of_its_site(tmp_path):
    party = read(tmp_path).open_party()
    assert (party.name, party.n_rows, party.n_features, party.y) == ("north", 40, 2, None)
    assert party.feature_names == ("age", "visits")
    assert party.data_norm == pytest.approx(2**0.5)
    assert (party.data_bound, party.nonnegative) == (1.0, False)
    assert list(map(str, party.ids[:2])) == ["p000", "p001"]
    assert not party.is_seeded
    assert read(tmp_path, DATA + "[trial]\nrandom_state = 7\n").open_party().is_seeded
    coordinator = read(tmp_path / "insurer", name="insurer").open_party()
    assert set(coordinator.y) == {"no", "yes"}
    assert "exact" in coordinator.answers


def test_paths_are_relative_to_the_file_not_to_where_the_site_is_started(tmp_path, monkeypatch):
    make_site(tmp_path / "kit", site=DATA)
    monkeypatch.chdir(tmp_path)
    assert Site.read(tmp_path / "kit").open_party().n_rows == 40


@pytest.mark.parametrize(
    ("facts", "error", "said"),
    [
        ({"schema": SCHEMA.replace("[columns.age]", 'target = "visits"\n[columns.age]', 1)}, SchemaError,
         "the labels are with the coordinator, 'insurer'"),
        ({"text": DATA.replace('"person"', '"visits"')}, SchemaError, "'visits' identifies people"),
        ({"table": people().assign(age="old")}, TableError, "'old' is not a number"),
        ({"table": people()[["person", "age"]]}, TableError, "there is no column 'visits'"),
        ({"text": DATA + BUDGET}, LedgerError, "ledger"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_before_anything_is_connected(tmp_path, facts, error, said):
    with pytest.raises(error, match=said):
        read(tmp_path, **facts).open_party()


# ------------------------------------------------------------------ what is answered


@pytest.mark.parametrize(
    ("more", "train", "score"),
    [
        ("", PRIVATE | {"alignment"}, {"score", "alignment"}),
        ('[allow]\nanswers = ["exact", "alignment", "score"]\n', {"exact", "alignment", "score"},
         {"alignment", "score"}),
        ('[allow]\nanswers = ["local-models", "score"]\n', {"local-models", "score"}, {"score"}),
        ('[allow]\nanswers = []\n', set(), set()),
    ],
)  # fmt: skip
def test_what_is_answered_without_a_budget(tmp_path, more, train, score):
    people(8).to_csv(tmp_path / "new.csv", index=False)
    site = read(tmp_path, DATA + SCORING + more)
    assert site.open_party("train").answers == train
    assert site.open_party("score").answers == score


def test_a_budget_is_for_the_training_and_scores_are_of_other_people(tmp_path):
    ledger = make_ledger(tmp_path, epsilon=2.0)
    people(8).to_csv(tmp_path / "new.csv", index=False)
    site = read(tmp_path, DATA + SCORING + BUDGET + '[allow]\nanswers = ["local-models", "score"]\n')
    party = site.open_party()
    assert party.budget.limit == "epsilon=2.0 at delta=1e-06"
    assert party.answers == {"local-models"}
    assert site.open_party("score").answers == {"score"}
    assert ledger.history("people") == []


# ------------------------------------------------------------------ people who are scored


def test_the_people_who_are_scored_are_others_with_the_parts_that_were_trained_here(tmp_path):
    people(8, seed=1).to_csv(tmp_path / "new.csv", index=False)
    site = read(tmp_path, DATA + SCORING)
    site.keep("ab12", Part(np.array([1.5, -0.1]), 0.25, ("age", "visits")))
    site.keep("../../etc/passwd", Part(np.zeros(2), 0.0, None))
    site.keep("older", Part(np.zeros(3), 0.0, ("age", "visits", "gone")))
    party = site.open_party("score")
    assert party.n_rows == 8
    assert not party.budget.is_limited
    part = party.parts["ab12"]
    assert (part.coef.tolist(), part.intercept, part.feature_names) == ([1.5, -0.1], 0.25, ("age", "visits"))
    assert party.keeps("../../etc/passwd")
    assert not party.keeps("older")
    names = sorted(path.name for path in site.models_folder.iterdir())
    assert [name for name in names if not re.fullmatch("[0-9a-f]{64}.json", name)] == ["ab12.json", "older.json"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in site.models_folder.iterdir()} == {0o600}


def train(site, *messages):
    line = Line(site.open_party())
    replies = [line.ask(message) for message in messages]
    for model, part in line.party.parts.items():
        site.keep(model, part)
    return replies


def test_a_model_that_was_made_without_noise_beside_a_budget_is_never_scored(tmp_path):
    """By an update that was not sent each row was once a model of its own, at no charge; scores told them all.

    No mechanism of the closed list leaves such a part under a budget any more; what is kept says it all the same.
    """
    ledger = make_ledger(tmp_path, epsilon=0.01)
    people(8, seed=1).to_csv(tmp_path / "new.csv", index=False)
    site = read(tmp_path, DATA + SCORING + BUDGET + '[allow]\nanswers = ["local-models", "score"]\n')
    assert {type(reply) for reply in train(site, ShowColumns(), KeepWeights("row 7", [1.0, 0.0, 0.0]))} == {Refused}
    site.keep("row 7", Part(np.array([1.0, 0.0]), 0.0, exact=True))
    assert ledger.history("people") == []
    labels = TrainOnLabels(np.resize([1.0, -1.0], 40), "squared", 0.1, 0.0, 0.1, 1e-4, "private")
    assert isinstance(train(site, labels)[-1], Payload)
    assert [site.parts()[name].exact for name in ("row 7", "private")] == [True, False]
    scoring = Line(site.open_party("score"))
    assert "made from its rows without noise" in scoring.ask(Score("row 7")).reason
    assert len(scoring.ask(Score("private")).numbers) == 8


def test_a_run_leaves_so_many_models_and_no_more(tmp_path):
    site = read(tmp_path, DATA + '[allow]\nanswers = ["exact"]\n')
    keeps = [KeepWeights(f"m{number}", np.zeros(3)) for number in range(MOST_MODELS + 1)]
    *_, before, last, again = train(site, *keeps, keeps[0])
    assert isinstance(before, Done) and isinstance(again, Done)
    assert last.reason == f"it keeps {MOST_MODELS} models of this run, and no more"
    assert len(site.parts()) == MOST_MODELS


def test_people_to_be_scored_need_a_table_and_good_parts_and_no_labels_unless_asked_for(tmp_path):
    with pytest.raises(ParameterError, match=r'\[scoring\] with table = "FILE"'):
        read(tmp_path).open_party("score")
    people(8).to_csv(tmp_path / "new.csv", index=False)
    site = read(tmp_path, DATA + SCORING, name="insurer")
    assert site.open_party("score").y is None
    with pytest.raises(TableError, match="there is no column 'sick'"):
        site.open_party("score", labels=True)
    site.models_folder.mkdir()
    (site.models_folder / "x.json").write_text("{}")
    with pytest.raises(ParameterError, match=r"x\.json: this is not a part of a model"):
        site.open_party("score")


# ------------------------------------------------------------------ facts for the owner


def test_the_owner_is_told_by_count_which_rows_no_alignment_takes(tmp_path):
    table = people(10)
    table.loc[[1, 2], "person"] = "p000"
    table.loc[5, "person"] = ""
    said = read(tmp_path, table=table).table_in_words()
    assert "10 rows, 3 columns of" in said and "; 6 can be aligned by 'person'. " in said
    assert "share" in said and "no identifier" in said
    assert "p00" not in said
    without = read(tmp_path, DATA.replace('id = "person"\n', ""), table=table)
    assert "10 rows, 3 columns of" in without.table_in_words() and "no identifiers: row i" in without.table_in_words()
