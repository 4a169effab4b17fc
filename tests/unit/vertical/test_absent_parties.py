"""Frank-Wolfe over parties of which some do not answer: the fit goes on, and nothing is released beyond its plan."""

import math
import warnings
from collections import Counter

import numpy as np
import pytest

from sottovoce.exceptions import ParameterError, PartyError, SottovoceWarning
from sottovoce.vertical import Party, VerticalLasso
from sottovoce.vertical.coordinator.attendance import shuffled_groups
from sottovoce.vertical.coordinator.parties import InProcessParties
from sottovoce.vertical.flare import parties as flare
from sottovoce.vertical.flare.parties import FlareParties
from sottovoce.vertical.protocols.frank_wolfe.messages import BallSelect, BallVertex, ShareColumn
from sottovoce.vertical.protocols.frank_wolfe.worker import BallSteps
from sottovoce.vertical.protocols.general.messages import Describe, Description
from support.flaky import LOST, UNHEARD, FlakyParties
from support.interrupted import Federation, Killed, tables

N, NAMES = 120, ("bank", "clinic", "shop")
RNG = np.random.default_rng(0)
TABLES = {name: RNG.uniform(-1, 1, (N, 4)) for name in NAMES}
Y = np.clip(0.6 * TABLES["bank"][:, 1] - 0.5 * TABLES["clinic"][:, 0] + 0.3 * TABLES["shop"][:, 2], -1, 1)
ALL = np.hstack(list(TABLES.values()))
AGGREGATIONS = pytest.mark.parametrize("aggregation", ["local", "product", "global"])
JOINT = pytest.mark.parametrize("aggregation", ["product", "global"])


def made():
    return [Party(TABLES[name], name=name, data_bound=1.0) for name in NAMES]


def lasso(**changes):
    given = {
        "epsilon": 30.0, "delta": 1e-4, "radius": 1.5, "label_bounds": (-1, 1), "labels_public": True, "n_steps": 3,
        "random_state": 0, "absent": "skip", "aggregation": "product",
    }  # fmt: skip
    return VerticalLasso(**given | changes)


def exact(**changes):
    return lasso(**{"epsilon": math.inf, "delta": None, "n_steps": None, "tol": 0.02, "max_iter": 1500, **changes})


def quietly(model, parties, y=Y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SottovoceWarning)
        return model.fit(parties, y)


@pytest.fixture
def drawn(monkeypatch):
    """Count what the parties draw: choices, and columns with noise, by party."""
    counts, names = Counter(), {}
    begin, select, share = BallSteps.__init__, BallSteps.select, BallSteps.share

    def opened(self, table, *more):
        begin(self, table, *more)
        names[id(self)] = next(name for name in NAMES if np.array_equal(TABLES[name], table))

    def chosen(self, others):
        counts["choice", names[id(self)]] += 1
        return select(self, others)

    def shared(self, column):
        counts["column", names[id(self)], column] += 1
        return share(self, column)

    monkeypatch.setattr(BallSteps, "__init__", opened)
    monkeypatch.setattr(BallSteps, "select", chosen)
    monkeypatch.setattr(BallSteps, "share", shared)
    return counts


# --- private trainings ------------------------------------------------------------------------------------------------


@AGGREGATIONS
def test_where_all_answer_nothing_is_different(aggregation):
    plain = lasso(aggregation=aggregation, absent="stop").fit(made(), Y)
    skipping = lasso(aggregation=aggregation).fit(made(), Y)
    np.testing.assert_array_equal(plain.coef_, skipping.coef_)
    assert plain.guarantee_.event == skipping.guarantee_.event
    assert (plain.uplink_bytes_, plain.n_rounds_) == (skipping.uplink_bytes_, skipping.n_rounds_)
    assert plain.absences_ is None
    assert skipping.absences_.rounds == skipping.absences_.lacking == {}


@JOINT
@pytest.mark.parametrize("seed", range(2))
def test_whatever_is_lost_nothing_is_released_beyond_the_plan(aggregation, seed, drawn):
    """Requests and answers of all kinds, each with a chance of a half; the party draws for each step once."""
    rng = np.random.default_rng(seed)

    def breaks(name, kind):
        private = kind in ("BallStart", "BallSelect", "BallStep", "ShareColumn", "KeepWeights")
        return private and name != "bank" and rng.choice(["", "", LOST, UNHEARD])

    model = quietly(lasso(aggregation=aggregation), FlakyParties(made(), breaks))
    plan = model.plan_
    for name in NAMES:
        assert drawn["choice", name] <= plan.n_steps
        assert sum(count for key, count in drawn.items() if key[:2] == ("column", name)) <= plan.n_steps - 1
    columns = {key: count for key, count in drawn.items() if key[0] == "column"}
    assert all(count == 1 for count in columns.values())
    assert sum(columns.values()) <= plan.n_shared
    assert model.guarantee_.event == plan.event == lasso(aggregation=aggregation).plan(made()).event
    assert np.abs(model.coef_).sum() + abs(model.intercept_) <= 1.5 * (1 + 1e-9)
    assert model.absences_.rounds
    if aggregation == "product":  # what a party lacks is what it did not take
        for at, name in enumerate(NAMES):
            share, most = np.abs(model.coef_[4 * at : 4 * at + 4]).sum(), 0.5 + 1e-9
            assert share <= most * (3 - model.absences_.lacking.get(name, 0)) / 3


@pytest.mark.parametrize("kind", ["BallSelect", "BallStep", "ShareColumn"])
@pytest.mark.parametrize("how", [LOST, UNHEARD])
def test_one_message_that_is_lost_costs_a_round_and_no_step(kind, how, drawn):
    lost = iter([how])
    parties = FlakyParties(made(), lambda name, asked: (name, asked) == ("clinic", kind) and next(lost, ""))
    model = lasso().fit(parties, Y)  # no warning: all was made up for
    assert model.absences_.rounds == {"clinic": (1,)}
    assert model.absences_.lacking == {}
    assert drawn["choice", "clinic"] == 3
    assert model.n_rounds_ == 4
    assert model.guarantee_.parameters["rounds missed"] == {"clinic": 1}
    np.testing.assert_array_equal(model.coef_, np.concatenate([model.parts_[name].coef for name in NAMES]))


def test_a_party_that_stays_away_keeps_the_steps_that_it_took(drawn):
    asked = Counter()

    def breaks(name, kind):
        asked[name, kind] += 1
        return name == "shop" and asked["shop", "BallSelect"] >= 2 and LOST

    parties = FlakyParties(made(), breaks)
    with pytest.warns(SottovoceWarning, match=r"2 of 'shop'; without their part of the model .*: 'shop'"):
        model = lasso().fit(parties, Y)
    assert model.absences_.rounds["shop"][:2] == (2, 3)
    assert model.absences_.lacking == {"shop": 2}
    assert np.count_nonzero(model.coef_[8:]) == 1
    assert np.abs(model.coef_[8:]).sum() == pytest.approx(0.5 / 3)
    assert drawn["choice", "bank"] == drawn["choice", "clinic"] == 3
    assert model.guarantee_.event == model.plan_.event
    spent = {name: party.spent for name, party in parties.parties.items()}
    assert spent["shop"] == spent["clinic"] == model.party_guarantees_["shop"].event  # as planned, for steps not taken
    assert sorted(model.parts_) == ["bank", "clinic"]
    with pytest.raises(PartyError, match="shop"):
        model.decision_function(parties)


def test_a_late_choice_of_the_last_round_shares_no_column_beyond_the_plan(drawn, monkeypatch):
    """One ball, three rounds, two columns: the winner of the last round was asked in the second."""
    rng = np.random.default_rng(3)
    table = {name: rng.choice([-1.0, 1.0], (4000, 4)) for name in NAMES}
    for name in NAMES:
        monkeypatch.setitem(TABLES, name, table[name])
    y = np.clip(0.5 * table["bank"][:, 1] - 0.4 * table["clinic"][:, 0] + 0.3 * table["shop"][:, 2], -1, 1)
    asked = Counter()

    def breaks(name, kind):
        asked[name, kind] += 1
        return (name, kind) == ("clinic", "BallSelect") and asked[name, kind] == 2 and LOST

    model = lasso(aggregation="global", epsilon=60.0, radius=1.5, fit_intercept=False).fit(
        FlakyParties(made(), breaks), y
    )
    assert model.absences_.rounds == {"clinic": (2,)}
    assert np.flatnonzero(model.coef_).tolist() == [1, 4, 10]
    assert sum(count for key, count in drawn.items() if key[0] == "column") == model.plan_.n_shared == 2


def test_a_party_that_never_comes_has_no_part():
    with pytest.warns(SottovoceWarning, match="3 of 'shop'"):
        model = lasso(aggregation="local").fit(
            FlakyParties(made(), lambda name, kind: (name, kind) == ("shop", "TrainOnBall") and LOST), Y
        )
    assert not model.coef_[8:].any()
    ready = InProcessParties(made())
    full = lasso(aggregation="local").fit(ready, Y)
    np.testing.assert_array_equal(model.coef_[:8], full.coef_[:8])
    assert model.scorer_.needed == ("bank", "clinic")
    assert full.scorer_.needed == NAMES


def test_a_party_that_lost_its_session_has_left():
    """It came back without its memory: what it says is told, and it is not asked again."""
    parties = made()
    asked = Counter()

    def breaks(name, kind):
        asked[name, kind] += 1
        if (name, kind) == ("clinic", "BallSelect") and asked[name, kind] == 2:
            flaky.parties["clinic"] = Party(TABLES["clinic"], name="clinic", data_bound=1.0)
        return ""

    flaky = FlakyParties(parties, breaks)
    with pytest.warns(SottovoceWarning, match=r"'clinic' refused BallSelect: .*never begun here"):
        model = lasso().fit(flaky, Y)
    assert asked["clinic", "BallSelect"] == 2
    assert model.absences_.lacking == {"clinic": 2}
    assert model.guarantee_.parameters["parties that left"] == ["clinic"]


@AGGREGATIONS
@pytest.mark.parametrize("who", ["bank", "shop"])
def test_without_being_told_to_skip_an_absent_party_ends_the_fit(aggregation, who):
    """And so does the label holder's own in any case."""
    kind = "TrainOnBall" if aggregation == "local" else "BallSelect"
    parties = FlakyParties(made(), lambda name, asked: (name, asked) == (who, kind) and LOST)
    with pytest.raises(PartyError, match=f"'{who}' could not be reached"):
        lasso(aggregation=aggregation, absent="skip" if who == "bank" else "stop").fit(parties, Y)


# --- who is asked when ------------------------------------------------------------------------------------------------


def test_groups_are_shuffled_from_the_public_seed():
    passes = shuffled_groups(NAMES, 2, 7)
    first = [next(passes) for _ in range(5)]
    again = shuffled_groups(NAMES, 2, 7)
    assert first == [next(again) for _ in range(5)]
    assert len({str(each) for each in first}) > 1
    for groups in first:
        assert sorted(name for group in groups for name in group) == sorted(NAMES)
        assert [len(group) for group in groups] == [2, 1]
    assert next(shuffled_groups(NAMES, 3, 0)) == [NAMES]


def test_some_parties_a_round_release_what_all_of_them_would(drawn):
    ready = InProcessParties(made())
    model = lasso(parties_per_round=1, parties_seed=3, absent="stop")
    with ready.recorded() as record:
        model.fit(ready, Y)
    order = [crossing.party for crossing in record if isinstance(crossing.message, BallSelect)]
    passes = shuffled_groups(NAMES, 1, 3)
    assert order == [group[0] for _ in range(3) for group in next(passes)]
    assert model.n_rounds_ == 9
    assert model.plan_.event == lasso().plan(ready).event
    assert {name: drawn["choice", name] for name in NAMES} == dict.fromkeys(NAMES, 3)
    heard = [crossing.message.others for crossing in record if isinstance(crossing.message, BallSelect)]
    assert not heard[0].any()
    assert heard[1].any()  # the second party already sees what the first one stepped along
    assert sum(isinstance(crossing.message, ShareColumn) for crossing in record) <= 6
    assert model.guarantee_.parameters["parties asked in a round"] == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"absent": "wait"}, "absent must be one of"),
        ({"parties_per_round": 4}, "parties_per_round must be"),
        ({"parties_per_round": 0}, "parties_per_round must be"),
        ({"parties_per_round": 2, "aggregation": "global"}, "is for aggregation='product'"),
        ({"parties_per_round": 2, "aggregation": "local"}, "is for aggregation='product'"),
        ({"parties_seed": -1}, "parties_seed must be"),
        ({"aggregation": "secure"}, "all parties must answer"),
        ({"mechanism": "paper", "aggregation": "local"}, "all parties must answer"),
    ],
)
def test_what_does_not_go_together_is_refused(changes, words):
    with pytest.raises(ParameterError, match=words):
        lasso(**changes).plan(made())


# --- without noise ----------------------------------------------------------------------------------------------------


def objective(model):
    return 0.5 * np.mean((ALL @ model.coef_ + model.intercept_ - Y) ** 2)


@pytest.mark.parametrize("aggregation", ["product", "global", "local"])
def test_half_of_the_answers_are_enough_for_the_optimum(aggregation):
    rng = np.random.default_rng(1)
    parties = FlakyParties(
        made(),
        lambda name, kind: (
            name != "bank" and kind in ("BallVertex", "ShowColumn") and rng.choice(["", "", LOST, UNHEARD])
        ),
    )
    model = exact(aggregation=aggregation).fit(parties, Y)
    full = exact(aggregation=aggregation, absent="stop").fit(made(), Y)
    assert model.history_.converged
    limit = 0.02 * 0.5 * np.mean(Y**2)  # both duality gaps are within it
    assert abs(objective(model) - objective(full)) <= (3 if aggregation == "local" else 1) * limit
    assert model.history_.n_rounds > full.history_.n_rounds


@pytest.mark.parametrize("per_round", [1, 2])
def test_some_parties_a_round_reach_the_same_optimum(per_round):
    ready = InProcessParties(made())
    with ready.recorded() as record:
        model = exact(parties_per_round=per_round, absent="stop").fit(ready, Y)
    full = exact(absent="stop").fit(made(), Y)
    assert model.history_.converged
    assert abs(objective(model) - objective(full)) <= 0.02 * 0.5 * np.mean(Y**2)
    asked = sum(isinstance(crossing.message, BallVertex) for crossing in record if not crossing.uplink)
    assert asked < 3 * model.history_.n_rounds
    assert (np.diff(model.history_.objective) < 1e-9).all()


def test_the_others_go_on_to_their_optimum_and_say_so():
    parties = FlakyParties(made(), lambda name, kind: (name, kind) == ("shop", "BallVertex") and LOST)
    with pytest.warns(Warning) as told:
        model = exact().fit(parties, Y)
    assert any("no convergence" in str(each.message) for each in told)
    assert not model.coef_[8:].any()
    two = exact(absent="stop", radius=1.0).fit(made()[:2], Y)  # a ball of 1/2 each, as with three
    assert objective(model) == pytest.approx(
        0.5 * np.mean((ALL[:, :8] @ two.coef_ + two.intercept_ - Y) ** 2), abs=0.02 * np.mean(Y**2)
    )


# --- the session, the checkpoint, the network -------------------------------------------------------------------------


def test_what_is_due_comes_first():
    """Until it is answered nothing else is asked: nobody knows whether the party has got it."""
    lost = iter([UNHEARD])
    parties = FlakyParties(made(), lambda name, kind: name == "shop" and next(lost, ""))
    with parties.session() as session:
        replies, away, refused = session.reach(dict.fromkeys(NAMES, Describe()), Description)
        assert (sorted(replies), list(away), refused) == (["bank", "clinic"], ["shop"], {})
        with pytest.raises(PartyError, match="has not answered the request before BallVertex"):
            session.reach({"shop": BallVertex(np.zeros(N), 0.0)}, Description)
        assert session.reach({"shop": Describe()}, Description)[0]["shop"].n_features == 4
        assert session.exchange(Describe(), Description)["shop"].n_features == 4


def test_a_run_with_absences_that_is_cut_off_goes_on_as_it_would_have(tmp_path):
    """Who was away is remembered as answers are, each time: the same request is lost in two rounds."""
    held, labels = tables()

    def fit(folder, cut):
        made = Federation(folder, held, {"data_bound": 1.0}, limited=True)
        model = lasso(random_state=None, ledger=made.ledger("labels"), dataset="people", delta=1e-6)
        try:
            model.fit(made.start(cut=cut), labels)
        except Killed:
            made.end("insurer")
            made.end("bank")
            model.fit(made.start(), labels)
        made.checkpoint.close()
        return model, made.charges()

    def losing(*, end=None):
        seen = Counter()

        def cut(number, place):
            seen[place] += 1
            if number == end and place == "after":
                raise Killed
            if place == "north" and 5 <= seen["north"] <= 8:
                raise ConnectionError

        return cut

    whole, charged = fit(tmp_path / "whole", losing())
    assert whole.absences_.rounds
    resumed, charged_again = fit(tmp_path / "cut", losing(end=24))
    np.testing.assert_array_equal(whole.coef_, resumed.coef_)
    assert whole.absences_.rounds == resumed.absences_.rounds
    assert charged == charged_again


def test_over_a_network_too(monkeypatch):
    """One party cannot be reached, one hangs: the rounds go on, and no thread is wasted on the one that hangs."""
    monkeypatch.setattr(flare, "_PAUSE", 0.001)
    monkeypatch.setattr(flare, "_GRACE", 0.02)
    monkeypatch.setattr(flare, "_LOOK", 0.005)
    import threading

    parties = {party.name: party for party in made()}
    release, calls = threading.Event(), Counter()

    def call(name, raw, seconds):
        kind = flare._asked(raw)
        calls[name, kind] += 1
        if (name, kind) == ("clinic", "BallSelect") and calls[name, kind] <= 2:
            raise ConnectionError
        if (name, kind) == ("shop", "BallStep"):
            release.wait(20.0)
        return parties[name].handle(raw)

    over = FlareParties(parties["bank"], ["clinic", "shop"], call, timeout=0.3)
    model = quietly(lasso(), over)
    release.set()
    over.end()
    assert model.absences_.rounds["clinic"] == (1,)
    assert model.absences_.lacking == {"shop": 3}
    assert calls["shop", "BallStep"] == 1
    assert not model.coef_[8:].any()
    plain = FlareParties(parties["bank"], ["clinic", "shop"], lambda name, raw, _: parties[name].handle(raw))
    np.testing.assert_array_equal(
        lasso(epsilon=math.inf, delta=None, n_steps=None, tol=0.1).fit(plain, Y).coef_,
        lasso(epsilon=math.inf, delta=None, n_steps=None, tol=0.1, absent="stop").fit(made(), Y).coef_,
    )
    plain.end()
