"""Forms for study: a party of one's own process takes what the closed list does not have."""

import inspect
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from sottovoce.exceptions import ModelFormatError, ParameterError, PartyError
from sottovoce.privacy.events import NonPrivateEvent
from sottovoce.report.comparison import made_again
from sottovoce.vertical import Party, VerticalLogisticRegression, split_columns
from sottovoce.vertical.coordinator.local_models import LocalModelsPlan
from sottovoce.vertical.flare.site import Site
from sottovoce.vertical.mechanisms import PROTOCOLS, Repertoire
from sottovoce.vertical.protocol import Protocol, Request
from sottovoce.vertical.wire import Message

X = np.random.default_rng(0).uniform(-1.0, 1.0, (200, 4))
Y = np.where(X.sum(axis=1) > 0.0, "yes", "no")
BUDGET = {"epsilon": 2.0, "delta": 1e-4, "classes": ["no", "yes"], "random_state": 0}


class SumReply(Message, code=65002):
    """The sum."""

    total: float


class Sum(Request, code=65001):
    """Tell the sum of your table."""

    def answer(self, facts, training):
        desk = yield NonPrivateEvent()
        return SumReply(float(desk.table.sum()))


@dataclass(frozen=True, kw_only=True)
class SumPlan(LocalModelsPlan):
    """Local models, after a round that the closed list does not have."""

    name: ClassVar[str] = "sum-for-study"

    def solve(self, parties, y, model, streams):
        assert set(parties.exchange(Sum(), SumReply)) == set(self.facts.names)
        return super().solve(parties, y, model, streams)


class Studied(VerticalLogisticRegression):
    """An estimator whose plan is the form's."""

    def _make_plan(self, **facts):
        return SumPlan(**facts)


STUDY = Protocol("sum-for-study", "the sum of a table", (Sum,), charged=True)


def parties(**more):
    both = {"data_norm": 2.0, **more}
    facts = {name: dict.fromkeys(("party1", "party2"), value) for name, value in both.items()}
    return split_columns(X, [2, 2], **facts)


def test_a_form_trains_where_parties_and_estimator_were_given_it():
    model = Studied(**BUDGET).fit(parties(protocols=[STUDY]), Y)
    plain = VerticalLogisticRegression(**BUDGET).fit(parties(), Y)
    assert all(np.array_equal(model.parts_[name].coef, plain.parts_[name].coef) for name in plain.parts_)
    assert isinstance(model.plan_, SumPlan)


def test_a_party_that_was_not_given_it_answers_no_such_message():
    for those in (parties(), parties(protocols=[])):
        with pytest.raises(PartyError, match="no message has kind 65001 here"):
            Studied(**BUDGET).fit(those, Y)


def test_the_owner_of_a_budget_must_name_it():
    one = {"protocols": [STUDY], "budget": (10.0, 1e-2)}
    with pytest.raises(PartyError, match="does not answer Sum, which is part of 'sum-for-study'"):
        Studied(**BUDGET).fit(parties(**one), Y)
    assert "sum-for-study" not in Party(X, name="clinic", budget=(1.0, 1e-5), protocols=[STUDY]).answers
    assert "sum-for-study" in Party(X, name="clinic", protocols=[STUDY]).answers
    assert Party(X, name="clinic", protocols=[STUDY], answers={"sum-for-study"}).answers == {"sum-for-study"}
    with pytest.raises(ParameterError, match="answers must be a set of names"):
        Party(X, name="clinic", answers={"sum-for-study"})


def test_no_settings_of_a_site_can_name_one():
    assert not [name for name in inspect.signature(Site).parameters if "protocol" in name]
    source = inspect.getsource(inspect.getmodule(Site))
    assert "protocols=" not in source


def test_what_does_not_go_together():
    with pytest.raises(ParameterError, match="protocols must be Protocol objects"):
        Party(X, name="clinic", protocols=["noise"])

    class Other(Request, code=Sum.code):
        pass

    with pytest.raises(ParameterError, match="two protocols answer messages of kind 65001"):
        Repertoire([STUDY, Protocol("", "", (Other,))])
    with pytest.raises(ParameterError, match="two protocols have the name 'exact'"):
        Party(X, name="clinic", protocols=[Protocol("exact", "everything", ())])
    assert Repertoire([*PROTOCOLS, STUDY, STUDY]).answers_to[Sum] == (STUDY, STUDY)


def test_a_receipt_of_a_form_cannot_be_made_again_and_says_so():
    receipt = Studied(**BUDGET).fit(parties(protocols=[STUDY]), Y).guarantee_
    assert receipt.parameters["mechanism"] == "sum-for-study"
    with pytest.raises(ModelFormatError, match="no run that this version of sottovoce can make: there is no 'Studied'"):
        made_again(receipt)
