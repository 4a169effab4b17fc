"""Joint training, sums and choices, as its users see it: estimators, helpers, engines, receipts, failures."""

import math
import os
import shutil
import signal
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from sottovoce.exceptions import ParameterError, PartyError
from sottovoce.ledger import Ledger
from sottovoce.report.comparison import made_again
from sottovoce.vertical import (
    ComputeSite,
    Helper,
    InProcessParties,
    Party,
    VerticalLasso,
    VerticalLinearSVC,
    VerticalLogisticRegression,
    VerticalRidge,
    VerticalSparseLogisticRegression,
    align,
)
from sottovoce.vertical.engines import available_engines
from sottovoce.vertical.estimators.choices import choose_engine, choose_mechanism, engine_for
from sottovoce.vertical.requests import secure as messages
from sottovoce.vertical.requests.general import Describe
from sottovoce.vertical.secure.worker import named
from sottovoce.vertical.wire import Payload, Refused
from support.crossing import recorded
from support.interrupted import HOME, OTHERS, Federation, Killed, at, tables
from support.party import asked, decode, instead

BUDGET = {"epsilon": 4.0, "delta": 1e-5}
N = 300


def table(n=N, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, d))
    return X, np.where(X.sum(axis=1) > 0.0, 1, 0)


def parties(helper=True, **more):
    X, y = table()
    found = [
        Party(X[:, :3], name="bank", data_norm=2.0, data_bound=1.0, y=y, **more),
        Party(X[:, 3:], name="clinic", data_norm=2.0, data_bound=1.0, **more),
    ]
    return [*found, Helper("notary")] if helper else found


def logistic(**more):
    return VerticalLogisticRegression(**{"mechanism": "secure", "classes": [0, 1], "random_state": 3, **BUDGET, **more})


def sparse(**more):
    return VerticalSparseLogisticRegression(
        **{"aggregation": "secure", "classes": [0, 1], "radius": 5.0, "random_state": 3, "n_steps": 5, **BUDGET, **more}
    )


EACH = pytest.mark.parametrize("make", [logistic, sparse], ids=["sums", "choices"])
BEFORE = set()


@pytest.fixture(autouse=True)
def threads_before():
    BEFORE.clear()
    BEFORE.update(threading.enumerate())


def no_thread_is_left():
    for _ in range(1000):
        if not any(each.name == "sottovoce joint training" and each not in BEFORE for each in threading.enumerate()):
            return True
        time.sleep(0.02)
    return False


# --- models -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("helper", [True, False], ids=["with a helper", "two parties"])
def test_a_joint_model_is_trained_and_scores(helper):
    given = parties(helper)
    model = logistic().fit(given)
    assert model.plan_.name == "secure"
    assert model.plan_.engine == "in-process"
    assert model.score(given, table()[1]) > 0.8
    assert set(model.parts_) == {"bank", "clinic"}
    assert model.n_rounds_ == 1 + model.plan_.joint.n_steps
    assert np.array_equal(model.decision_function(given[:2]), model.decision_function(given))
    assert no_thread_is_left()


def ridge(**more):
    return VerticalRidge(mechanism="secure", label_bounds=(0, 1), random_state=1, **BUDGET, **more)


def svc(**more):
    return VerticalLinearSVC(mechanism="secure", classes=[0, 1], random_state=1, **BUDGET, **more)


def test_the_other_estimators():
    given = parties()
    model = ridge().fit(given)
    assert model.n_rounds_ == 1 + model.plan_.joint.n_steps == 9
    assert ridge(mechanism_options={"n_passes": 0}).fit(given).n_rounds_ == 1
    assert model.score(given, table()[1]) > 0.2
    assert svc().fit(given).score(given, table()[1]) > 0.8


def lasso(**more):
    facts = {"aggregation": "secure", "label_bounds": (-1, 1), "radius": 2.0, "random_state": 3, **BUDGET, **more}
    return VerticalLasso(**facts)


@pytest.mark.parametrize("helper", [True, False], ids=["with a helper", "two parties"])
def test_a_joint_choice_finds_the_columns_of_both(helper):
    X, _ = table(600, 12)
    y = np.clip(X[:, 1] - X[:, 9], -1.0, 1.0)
    given = [Party(X[:, :6], name="bank", data_bound=1.0, y=y), Party(X[:, 6:], name="clinic", data_bound=1.0)]
    given += [Helper("notary")] if helper else []
    model = lasso(epsilon=8.0).fit(given)
    assert set(np.argsort(np.abs(model.coef_))[-2:]) == {1, 9}
    assert model.coef_[1] > 0.5 > -0.5 > model.coef_[9]
    assert model.score(given[:2], y) > 0.7
    assert model.n_rounds_ == model.plan_.joint.n_choices
    assert np.abs(model.coef_).sum() + abs(model.intercept_) <= 2.0 + 1e-9
    np.testing.assert_allclose(model.predict(given), X @ model.coef_ + model.intercept_)
    # in the units of the tables: steps of .1, which do not shrink, end near the least squares
    given[0] = Party(X[:, :6] * 2.0, name="bank", data_bound=2.0, y=y * 10.0 + 47.0)
    model = lasso(label_bounds=(34, 54), radius=15.0, epsilon=1e5, n_steps=150).fit(given)
    least = np.linalg.lstsq(np.column_stack([2.0 * X[:, 1], X[:, 9], np.ones(600)]), 10.0 * y + 47.0)[0]
    for got, wanted in zip((model.coef_[1], model.coef_[9], model.intercept_), least, strict=True):
        assert got == pytest.approx(wanted, rel=0.25)
    same = [lasso(epsilon=math.inf, aggregation=each).fit(given).coef_ for each in ("secure", "local")]
    assert np.array_equal(*same)  # without noise there is one joint problem


@EACH
def test_seeds_repeat_the_model_and_passes_have_noise_of_their_own(make):
    one, again, other = (make(random_state=seed, epsilon=0.5).fit(parties()) for seed in (3, 3, 4))
    assert np.array_equal(one.parts_["bank"].coef, again.parts_["bank"].coef)
    assert not np.array_equal(one.parts_["bank"].coef, other.parts_["bank"].coef)


@EACH
def test_shares_of_two_steps_differ_although_the_party_is_seeded(make):
    given = InProcessParties(parties())
    drawn, streams = [], {}
    plan = make().plan(given).joint
    shares = type(plan).shares

    def watched(self, step, name, noise):
        drawn.append((step, name, shares(self, step, name, noise)))
        streams.setdefault(name, []).append(noise)
        return drawn[-1][2]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(plan), "shares", watched)
        make(random_state=5).fit(given)
    passes = [share[0].tolist() for step, name, share in drawn if step and name == "bank"]
    assert len({tuple(share) for share in passes}) == len(passes) == plan.n_steps
    for each in streams.values():  # opened anew with the same seed it would begin again
        assert all(stream is each[0] for stream in each)
    at_one_step = [share[0].tolist() for step, _, share in drawn if step == 1]
    assert len({tuple(share) for share in at_one_step}) == 3


@EACH
def test_public_labels_are_treated_as_secret(make):
    model = make(labels_public=True).fit(parties())
    assert "the label included" in model.guarantee_.unit


@EACH
def test_what_crosses_holds_no_row_margin_or_label_but_to_the_label_holder(make):
    given = InProcessParties(parties())
    with recorded(given) as crossed:
        model = make().fit(given)
    sent = [each for each in crossed if isinstance(each.message, messages.Join)]
    assert [len(each.message.labels) for each in sent] == [N, 0, 0]
    up = [each.message for each in crossed if each.uplink]
    long = [
        each for each in up if any(isinstance(value, np.ndarray) and len(value) >= N for value in vars(each).values())
    ]
    assert not long
    assert {type(each).__name__ for each in up} == {"Description", "Done", "Payload"}
    plan = model.plan_.joint
    (opened,) = [each.numbers for each in up if isinstance(each, Payload) and len(each.numbers) > 2]
    assert len(opened) - 2 == sum(plan.n_opened(step) for step in range(plan.n_steps + 1))  # the others compare


# --- helpers ----------------------------------------------------------------------------------------------------------


def test_a_helper_takes_no_part_in_other_mechanisms_and_holds_no_labels():
    given, alone = parties(), parties(helper=False)
    model = logistic(mechanism="local-models").fit(given)
    assert model.plan_.facts.helpers == ("notary",)
    assert set(model.parts_) == set(logistic(mechanism="local-models").fit(alone).parts_)
    model.decision_function(given)
    exact = VerticalLogisticRegression(epsilon=math.inf).fit(given)
    assert exact.score(given, table()[1]) > 0.95
    assert logistic().plan([given[2], *given[:2]]).facts.label_holder == "bank"
    with pytest.raises(ParameterError, match="party 'notary' is a helper, without a table"):
        logistic(label_holder="notary").fit(given, table()[1])
    X, y = table(6)
    bank = Party(X[:, :3], ids=list("abcdef"), name="bank", y=y, data_norm=2.0)
    aligned = align([bank, Party(X[::-1, 3:], ids=list("fedcba"), name="clinic", data_norm=2.0), Helper("notary")])
    assert (aligned.report.n_common, aligned.names) == (6, ("bank", "clinic", "notary"))


# --- engines ----------------------------------------------------------------------------------------------------------

SPU, SHAMIR, BOTH, HERE = {"spu"}, {"shamir"}, {"spu", "shamir"}, {"in-process"}


@pytest.mark.parametrize(
    ("engines", "chosen"),
    [
        ([BOTH, BOTH, BOTH], "spu"),
        ([SPU, SPU], "spu"),
        ([BOTH, BOTH, SHAMIR], "shamir"),
        ([BOTH, SHAMIR], None),
        ([BOTH] * 4, "shamir"),
        ([SPU] * 4, None),
        ([HERE, HERE], "in-process"),
        ([HERE, BOTH, BOTH], None),
    ],
)
def test_the_engine_is_one_that_all_have_for_so_many(engines, chosen):
    by_name = {f"party{place}": each for place, each in enumerate(engines)}
    assert choose_engine(by_name) == chosen
    if chosen is None:
        with pytest.raises(ParameterError, match=r"found no engine .* 'party0' has .*sottovoce\[secure\]"):
            engine_for("auto", by_name)
    else:
        assert engine_for("auto", by_name) == chosen


def test_an_engine_that_is_named_must_be_there():
    by_name = {"bank": {"in-process"}, "clinic": {"shamir", "spu"}}
    with pytest.raises(
        ParameterError, match=r"engine='shamir' is not to be had at 'bank': party 'bank' has in-process"
    ):
        engine_for("shamir", by_name)
    with pytest.raises(ParameterError, match="engine='shamir' computes with three parties or more; there are 2"):
        engine_for("shamir", {"bank": SHAMIR, "clinic": SHAMIR})
    with pytest.raises(ParameterError, match="engine='in-process' is for mechanism='secure'"):
        logistic(mechanism="local-models", engine="in-process").plan(parties())
    with pytest.raises(ParameterError, match="engine='spu' is for aggregation='secure'"):
        sparse(aggregation="local", engine="spu").plan(parties())


def test_choices_are_made_by_an_engine_that_compares():
    both = {name: {"shamir": "shamir 1", "spu": "spu 1"} for name in ("bank", "clinic", "notary")}
    only = {name: {"shamir": "shamir 1"} for name in both}
    for engines, engine, words in (
        (both, "shamir", "engine='shamir' cannot compare secret numbers"),
        (only, "auto", "found no engine for these 3 parties: it takes spu"),
        (both, "auto", None),
    ):
        estimator = sparse(engine=engine)
        estimator._engines = lambda *_, engines=engines: engines
        if words is None:
            assert estimator.plan(parties()).engine == "spu"
            continue
        with pytest.raises(ParameterError, match=words):
            estimator.plan(parties())


def test_parties_that_are_elsewhere_do_not_compute_in_one_process():
    class Elsewhere(InProcessParties):
        def __init__(self, given):
            super().__init__(given)
            self.here = {"bank": self.parties["bank"]}

    with pytest.raises(ParameterError, match="found no engine"):
        logistic().plan(Elsewhere(parties()))


def test_a_party_whose_owner_does_not_allow_it_has_no_engine():
    given = parties(answers={"local-models"})
    with pytest.raises(ParameterError, match="Party 'bank' has none; 'clinic' has none; 'notary' has in-process"):
        logistic().plan(given)


def test_auto_chooses_by_public_facts_and_says_why():
    model = logistic(mechanism="auto").fit(parties())
    assert model.plan_.name == "local-models"
    assert "no engine of secure computation" in model.guarantee_.parameters["why this mechanism"]
    named = logistic(mechanism="auto", engine="in-process").plan(parties())
    assert (named.name, named.why_chosen) == ("secure", "engine='in-process' was named")
    X, y = table()
    loose = [Party(X[:, :3], name="bank", y=y), Party(X[:, 3:], name="clinic", data_norm=2.0)]
    assert "party 'bank' declared no data_norm" in logistic(mechanism="auto").plan(loose).why_chosen
    facts = {"n_features": 10, "epsilon": 1.0, "delta": 1e-5, "engine": "spu", "engines": {"a": SPU, "b": SPU}}
    assert choose_mechanism(n_samples=10**6, **facts)[0] == "secure"
    mechanism, why = choose_mechanism(n_samples=10, **facts)
    assert mechanism == "local-models"
    assert why


@pytest.mark.parametrize(
    ("changed", "n_samples"),
    # people x mu / noise / (columns + 1) = 15 with mu = .268
    [({}, 871), ({"colluding": 2, "engines": dict.fromkeys("abc", SPU)}, 1066), ({"engine": "shamir"}, 3482)],
)
def test_auto_looks_at_people_noise_and_columns(changed, n_samples):
    facts = {"n_features": 10, "epsilon": 1.0, "delta": 1e-5, "engine": "spu", "engines": {"a": SPU, "b": SPU}}
    facts.update(changed)
    taken = [choose_mechanism(n_samples=round(n_samples * factor), **facts)[0] for factor in (0.98, 1.02)]
    assert taken == ["local-models", "secure"]
    # numbers need fewer people: no cubic with Shamir's shares, and refinement elsewhere
    assert choose_mechanism(n_samples=round(0.4 * n_samples), is_classification=False, **facts)[0] == "secure"
    assert choose_mechanism(n_samples=round(0.2 * n_samples), is_classification=False, **facts)[0] == "local-models"


def test_bounds_and_options_are_checked_before_anything_is_sent():
    given = InProcessParties(parties())
    with recorded(given) as crossed:
        with pytest.raises(ParameterError, match="colluding"):
            logistic(mechanism_options={"colluding": 3}).fit(given)
        with pytest.raises(ParameterError, match="n_passes"):
            logistic(mechanism_options={"n_passes": 0}).fit(given)
        for name, value in (("engine", "semi2k"), ("radius_shares", {"bank": 1}), ("n_steps", 0), ("engine", "spu")):
            with pytest.raises(ParameterError, match=name):
                sparse(**{name: value}).fit(given)
    assert {type(each.message).__name__ for each in crossed} <= {
        "Describe", "Description", "Close", "Done",
    }  # fmt: skip
    X, y = table()
    unbounded = [Party(X[:, :3], name="bank", y=y), Party(X[:, 3:], name="clinic", data_norm=2.0)]
    with pytest.raises(ParameterError, match="mechanism='secure' needs data_norm of party 'bank'"):
        logistic().fit(unbounded)


# --- what is charged, and what is told --------------------------------------------------------------------------------


@EACH
def test_each_party_with_a_table_is_charged_once_as_a_whole(make):
    given = parties(budget=(5.0, 1e-4))
    model = make().fit(given)
    for party in given[:2]:
        assert party.spent == model.plan_.event == model.guarantee_.event
    with pytest.raises(PartyError, match="refused Invite"):
        make().fit(given)
    assert given[0].spent == model.plan_.event


@pytest.mark.parametrize(
    ("make", "holds"),
    [
        (
            partial(logistic, mechanism_options={"colluding": 1}),
            "against 1 of 3 colluding computing parties, who",
        ),
        (sparse, "as far as noise goes it holds against the other 2 together"),
    ],
    ids=["sums", "choices"],
)
def test_the_receipt_says_what_the_claim_rests_on(make, holds):
    model = make().fit(parties())
    receipt = model.guarantee_
    assert holds in " ".join(receipt.assumptions)
    assert any("nothing is hidden from whoever runs it" in each for each in receipt.not_covered)
    total = receipt.parameters.get("total noise over the stated noise")
    assert total == (None if make is sparse else pytest.approx(math.sqrt(1.5)))
    assert set(model.party_guarantees_) == {"bank", "clinic"}
    for each in (receipt, *model.party_guarantees_.values()):
        assert made_again(each).parameters == each.parameters
        assert made_again(each).event == each.event
    engines = {name: {"spu": "spu 1"} for name in ("bank", "clinic", "notary")}
    estimator = make()
    estimator._engines = lambda *_: engines
    plan = estimator.plan(parties())
    rests = "computational and semi-honest: it rests on the protocol ABY3 of spu 1"
    assert any(rests in each for each in plan.words.assumptions)
    assert any("two colluding computing parties" in each for each in plan.words.not_covered)
    assert plan.event == model.plan_.event


# --- failures ---------------------------------------------------------------------------------------------------------


class Broken(Party):
    """Refuses a kind of request, with a model where that says so."""

    kind = messages.Join
    keeps = False

    def handle(self, raw):
        request = asked(raw)
        if not isinstance(request, self.kind) or bool(getattr(request, "model", "")) != self.keeps:
            return super().handle(raw)
        super().handle(instead(raw, Describe()))  # it counts as a step
        return Refused("it has a headache").encode()


@EACH
@pytest.mark.parametrize(
    ("kind", "keeps"),
    [*((kind, False) for kind in (messages.Connect, messages.Poll, messages.Join)), (messages.Poll, True)],
)
def test_a_party_that_fails_ends_the_training_at_all(make, kind, keeps, tmp_path):
    """Up to the start it costs nothing, in nobody's account."""
    ledger = Ledger(f"sqlite:///{tmp_path / 'budget.db'}", who="tester")
    ledger.create("people", epsilon=8.0, delta=1e-4, adjacency="replace-one", allow_nonprivate=True)
    given = parties(budget=(5.0, 1e-4))
    given[1] = broken = Broken(table()[0][:, 3:], name="clinic", data_norm=2.0, data_bound=1.0, budget=(5.0, 1e-4))
    broken.kind, broken.keeps, charged = kind, keeps, keeps or kind is messages.Join
    with pytest.raises(PartyError) as caught:
        make(ledger=ledger, dataset="people").fit(given)
    text = str(caught.value)
    assert f"party 'clinic' refused {kind.__name__}: it has a headache" in text
    assert ("epsilon = 4 of every person's rows at all parties is spent and stays charged" in text) == charged
    event = make().plan(parties()).event
    assert (given[0].spent == event) == (ledger.spent("people")[0] > 3.0) == charged
    assert charged or ledger.spent("people")[0] == 0.0
    assert (broken.spent == event) == keeps
    assert no_thread_is_left()


@pytest.mark.parametrize(
    ("liars", "lie", "words"),
    [
        (1, lambda told: np.append(told[:-1], 0.0), "refused Poll: its training opened other numbers than it is told"),
        (2, lambda told: [0, 1, 1.0, 2.0], "'bank' says that 2 numbers were opened, which"),
    ],
    ids=["one", "all"],
)
def test_parties_that_tell_of_other_numbers_are_named(liars, lie, words):
    class Lying(Party):
        def handle(self, raw):
            told = super().handle(raw)
            numbers = getattr(decode(told), "numbers", ())
            return Payload(lie(numbers)).encode() if len(numbers) > 4 else told

    X, y = table()
    kinds = [Lying] * liars + [Party] * (2 - liars)
    given = [kinds[0](X[:, :3], name="bank", data_norm=2.0, y=y), kinds[1](X[:, 3:], name="clinic", data_norm=2.0)]
    with pytest.raises(PartyError, match=words):
        logistic().fit([*given, Helper("notary")] if liars == 1 else given)
    assert no_thread_is_left()


@pytest.mark.parametrize("card", [b"\xff", b" " * 65_537], ids=["no text", "too long"])
def test_a_card_that_is_no_text_names_who_sent_it(card):
    class Lying(Party):
        def handle(self, raw):
            return Payload(octets=card).encode() if isinstance(asked(raw), messages.Invite) else super().handle(raw)

    with pytest.raises(PartyError, match="'clinic' answered with no text"):
        logistic().fit([parties()[0], Lying(table()[0][:, 3:], name="clinic", data_norm=2.0)])


def test_two_trainings_at_once_do_not_mix():
    given, models, made = parties(), [logistic(random_state=seed) for seed in (1, 2)], {}
    threads = [threading.Thread(target=lambda model=model: made.update({model: model.fit(given)})) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    for model in models:
        alone = logistic(random_state=model.random_state).fit(parties())
        assert np.array_equal(made[model].parts_["bank"].coef, alone.parts_["bank"].coef)
    assert no_thread_is_left()


def test_what_goes_wrong_in_the_background_is_told_without_the_data(monkeypatch, caplog):
    plan = logistic().plan(parties()).joint

    def margins(self, name, rows, point):
        raise ValueError(f"{rows[0, 0]} in row 0".replace("row 0", "the first row"))

    monkeypatch.setattr(type(plan), "margins", margins)
    with pytest.raises(PartyError) as caught:
        logistic().fit(parties())
    assert "in the first row" not in str(caught.value)
    assert "in the first row" not in caplog.text
    assert "left the joint computation" in str(caught.value) or "own log says more" in str(caught.value)
    assert no_thread_is_left()


def test_engines_speak_of_places_and_people_read_names():
    assert named("party 1 has left", ("bank", "clinic")) == "party 'clinic' has left"
    assert named("party 7 has left", ("bank", "clinic")) == "party 7 has left"


def test_a_run_that_was_cut_off_cannot_be_resumed_and_stays_charged_once(tmp_path, monkeypatch):
    """Wherever the coordinator and its own party were killed: the same model, or words; never a second charge."""
    rows, labels = tables()
    here = {name: {"in-process": "1"} for name in (HOME, *OTHERS)}
    monkeypatch.setattr(VerticalLogisticRegression, "_engines", lambda *_: here)
    made = Federation(tmp_path, rows, {"data_norm": 1.0}, limited=True)

    def fit(cut=None):
        model = logistic(
            classes=[-1, 1], epsilon=2.0, random_state=None, mechanism_options={"n_passes": 1}, dataset="people",
            ledger=made.ledger("labels"),
        )  # fmt: skip
        return model.fit(made.start(cut=cut), labels)

    refused = 0
    for number in (1, 2, 4, 6):
        before = made.charges()
        with pytest.raises(Killed):
            fit(at(number, "after", Killed()))
        for party in made.parties.values():
            for worker in party._workers():
                worker.close()
        made.end(HOME, *OTHERS)
        charged = made.charges()
        try:
            fit()
        except PartyError as error:
            assert "ended with the processes of its parties" in str(error), error
            assert made.charges() == charged
            refused += 1
        for name in OTHERS:
            assert len(made.charges()[name]) - len(before[name]) <= 1
        made.end(HOME, *OTHERS)
        shutil.rmtree(tmp_path / "run")
    assert refused == 1  # that which had begun


# --- real processes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "engine", "helper"),
    [
        (sparse, "spu", True),
        (partial(ridge, mechanism_options={"n_passes": 0}), "shamir", True),
        pytest.param(ridge, "spu", True, marks=pytest.mark.slow),
        pytest.param(svc, "spu", False, marks=pytest.mark.slow),
    ],
    ids=["choices by spu", "ridge by shamir", "ridge by spu", "hinge by two parties of spu"],
)
def test_real_processes_open_what_the_same_numbers_are_in_clear(make, engine, helper):
    if engine not in available_engines():
        pytest.skip(f"{engine} is not to be had here")
    X, y = table()
    site = ComputeSite(timeout=60.0, engines=(engine,))
    facts = {"data_norm": 2.0, "data_bound": 1.0, "computing": site}
    apart = [Party(X[:, :3], name="bank", y=y, **facts), Party(X[:, 3:], name="clinic", **facts)]
    apart += [Helper("notary", computing=site)] if helper else []
    model, clear = make().fit(apart), make().fit(parties(helper))
    assert model.plan_.engine == engine
    for name in ("bank", "clinic"):
        assert np.array_equal(model.parts_[name].coef, clear.parts_[name].coef)
    assert no_thread_is_left()


@pytest.mark.parametrize(
    "blow", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)], ids=["dies", "stalls"]
)
def test_an_engine_that_fails_in_a_pass_ends_the_training_at_all(blow):
    """In words, in time, with the charge, and with no process left."""
    pytest.importorskip("spu")
    X, y = table()
    site = ComputeSite(timeout=20.0, engines=("spu",))
    struck = []

    class Struck(Party):
        def handle(self, raw):
            (worker,) = self._workers() or [None]
            if worker is not None and worker.state == "computing" and not struck:
                struck.append(worker._engine.pid)
                os.kill(struck[0], blow)
            return super().handle(raw)

    given = [
        Struck(X[:, :3], name="bank", data_norm=2.0, y=y, computing=site, budget=(9.0, 1e-3)),
        Party(X[:, 3:], name="clinic", data_norm=2.0, computing=site, budget=(9.0, 1e-3)),
        Helper("notary", computing=site),
    ]
    began = time.monotonic()
    with pytest.raises(PartyError, match="is spent and stays charged, whatever was opened") as caught:
        logistic().fit(given)
    assert "refused Poll" in str(caught.value)
    assert time.monotonic() - began < 90.0
    assert given[0].spent == given[1].spent == logistic().plan(given).event
    assert no_thread_is_left()
    for _ in range(100):
        if not Path(f"/proc/{struck[0]}").exists():
            break
        time.sleep(0.05)
    assert not Path(f"/proc/{struck[0]}").exists()
