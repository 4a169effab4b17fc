"""The party that follows from an owner's table, schema and settings: what it answers, and which parts it keeps."""

import re
import stat

import numpy as np
import pytest

from sottovoce.exceptions import LedgerError, ParameterError, SchemaError, TableError
from sottovoce.vertical.flare.site import MOST_MODELS, Site
from sottovoce.vertical.mechanisms import PRIVATE
from sottovoce.vertical.protocol import Part
from sottovoce.vertical.protocols.exact.messages import LbfgsStart
from sottovoce.vertical.protocols.general.messages import Keep, Prepare
from sottovoce.vertical.protocols.local_models.messages import Trained, TrainOnLabels
from sottovoce.vertical.protocols.scoring.messages import Score
from sottovoce.vertical.wire import Done, Refused
from support.party import Line
from support.site import SCHEMA, make_ledger, make_site, people

DATA = '[data]\ntable = "people.csv"\nschema = "people.toml"\nid = "person"\n'
SCORING = '[scoring]\ntable = "new.csv"\n'
BUDGET = '[budget]\nledger = "sqlite:///ledger.db"\ndataset = "people"\n'


def read(folder, text=DATA, **facts):
    return Site.read(make_site(folder, site=text, **facts))


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
        ('[allow]\nanswers = ["local-models", "columns"]\n', {"local-models", "columns"}, {"columns"}),
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
    part = party.part("ab12")
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
    assert {type(reply) for reply in train(site, Prepare(1e20, 0), LbfgsStart(5), Keep("row 7"))} == {Refused}
    site.keep("row 7", Part(np.array([1.0, 0.0]), 0.0, exact=True))
    assert ledger.history("people") == []
    labels = TrainOnLabels(np.resize([1.0, -1.0], 40), "squared", 0.1, 0.0, 0.1, 1e-4, "private")
    assert isinstance(train(site, labels)[-1], Trained)
    assert [site.parts()[name].exact for name in ("row 7", "private")] == [True, False]
    scoring = Line(site.open_party("score"))
    assert "made from its rows without noise" in scoring.ask(Score("row 7")).reason
    assert len(scoring.ask(Score("private")).scores) == 8


def test_a_run_leaves_so_many_models_and_no_more(tmp_path):
    site = read(tmp_path, DATA + '[allow]\nanswers = ["exact"]\n')
    opening = Prepare(1.0, 0), LbfgsStart(5)
    keeps = [Keep(f"m{number}") for number in range(MOST_MODELS + 1)]
    *_, before, last, again = train(site, *opening, *keeps, keeps[0])
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
