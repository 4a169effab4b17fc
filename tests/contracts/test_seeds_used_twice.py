"""Noise that is drawn a second time is said to be: every run that takes a seed, every kind of seed, every two runs."""

import copy
import functools
import inspect
import itertools
import math
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import sottovoce as sv
from sottovoce import randomness, vertical
from sottovoce.exceptions import BudgetError, ParameterError, PrivacyWarning
from sottovoce.ledger.verification import _overspent, read_row
from sottovoce.privacy.events import NothingReleased
from sottovoce.randomness import Purpose, Streams
from support.pairs import by_pairs

AGAIN = "noise was drawn from this random_state before"
BUDGET = {"epsilon": 1.0, "delta": 1e-5}
N = 120


def table():
    X = np.random.default_rng(5).uniform(-0.5, 0.5, (N, 3))
    return X, np.where(X[:, 0] > 0, "yes", "no"), X[:, 1]


def words(estimator):
    X, y, _ = table()
    return estimator.fit(X, y)


def numbers(estimator):
    X, _, y = table()
    return estimator.fit(X, y)


def joint(kind, *, sparse=False, regression=False, **options):
    def run(**given):
        X, y, values = table()
        bounds = dict.fromkeys(("party1", "party2"), 0.5 if sparse else 1.0)
        parties = vertical.split_columns(X, [2, 1], **{"data_bound" if sparse else "data_norm": bounds})
        facts = {"label_bounds": (-1, 1)} if regression else {"classes": ["no", "yes"]}
        return kind(**BUDGET, **facts, **options, **given).fit(parties, values if regression else y)

    return run


TWO = {"classes": ["no", "yes"]}
MODEL = sv.DPLogisticRegression(**BUDGET, data_norm=1.0, **TWO)


def logistic(**given):
    return words(clone(MODEL).set_params(**given))


RUNS = {
    **{f"logistic {solver}": functools.partial(logistic, solver=solver)
       for solver in ("auto", "scd", "sgd")},
    "svc": lambda **given: words(sv.DPLinearSVC(**BUDGET, data_norm=1.0, **TWO, **given)),
    "ridge": lambda **given: numbers(sv.DPRidge(**BUDGET, data_norm=1.0, label_bounds=(-1, 1), **given)),
    "lasso": lambda **given: numbers(
        sv.DPLasso(**BUDGET, data_bound=0.5, radius=1.0, label_bounds=(-1, 1), n_steps=3, **given)
    ),
    "sparse": lambda **given: words(
        sv.DPSparseLogisticRegression(**BUDGET, data_bound=0.5, radius=1.0, **TWO, **given)
    ),
    "scaler": lambda **given: sv.DPScaler(**BUDGET, **given).fit(table()[0]),
    "pipeline": lambda **given: words(
        sv.DPPipeline([("s", sv.DPScaler()), ("m", sv.DPLogisticRegression(**TWO))], **BUDGET, **given)
    ),
    "pipeline of a model alone": lambda **given: words(
        sv.DPPipeline([("m", sv.DPLogisticRegression(data_norm=1.0, **TWO))], **BUDGET, **given)
    ),
    "search": lambda **given: words(
        sv.DPSearchCV(
            sv.DPLogisticRegression(data_norm=1.0, **TWO), {"alpha": [1e-3, 1e-2]}, **BUDGET, n_iter=2.0, **given
        )
    ),
    "evaluate": lambda **given: sv.evaluate(words(clone(MODEL)), *table()[:2], epsilon=1.0, **given),
    "vertical logistic": joint(vertical.VerticalLogisticRegression),
    "vertical svc": joint(vertical.VerticalLinearSVC),
    "vertical ridge": joint(vertical.VerticalRidge, regression=True),
    "vertical ridge, labels public": joint(vertical.VerticalRidge, regression=True, labels_public=True),
    "vertical lasso": joint(
        vertical.VerticalLasso, sparse=True, regression=True, radius=1.0, aggregation="local", n_steps=3
    ),
    "vertical sparse": joint(
        vertical.VerticalSparseLogisticRegression, sparse=True, radius=1.0, aggregation="local", n_steps=3
    ),
}  # fmt: skip
PAIRS = {  # from one seed: what two runs are given
    "a number": lambda: (11, 11),
    "numpy's number": lambda: (11, np.int64(11)),
    "a generator, shared": lambda: (np.random.default_rng(11),) * 2,
    "a generator, copied": lambda: (np.random.default_rng(11), np.random.default_rng(11)),
    "an old generator, shared": lambda: (np.random.RandomState(11),) * 2,
    "an old generator, copied": lambda: (state := np.random.RandomState(11), copy.deepcopy(state)),
}


class Drawn:
    """Which seeds noise was drawn from, and what was said of it, run by run."""

    def __init__(self, monkeypatch):
        self.seeds, kept = set(), Streams._bits

        def bits(streams, purpose):
            if purpose is Purpose.NOISE and streams.seeded:
                assert streams._seed not in self.seeds, "one run draws the same noise for two of its parts"
                self.seeds.add(streams._seed)
            return kept(streams, purpose)

        monkeypatch.setattr(Streams, "_bits", bits)
        monkeypatch.setattr(randomness, "_SEEDS_OF_NOISE", set())

    def by(self, run, **given):
        self.seeds = set()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            run(**given)
        return self.seeds, any(AGAIN in str(each.message) for each in said)


@pytest.fixture
def drawn(monkeypatch):
    return Drawn(monkeypatch)


def test_the_list_has_every_public_thing_that_takes_a_seed():
    found = {
        name
        for room in (sv, vertical)
        for name in room.__all__
        if "random_state" in inspect.signature(getattr(room, name)).parameters
    } - {"canary_table"}  # makes a table
    assert found == {
        "DPLogisticRegression", "DPLinearSVC", "DPRidge", "DPLasso", "DPSparseLogisticRegression", "DPScaler",
        "DPPipeline", "DPSearchCV", "evaluate", "VerticalLogisticRegression", "VerticalLinearSVC", "VerticalRidge",
        "VerticalLasso", "VerticalSparseLogisticRegression",
    }  # fmt: skip


@pytest.mark.parametrize(("name", "seeds"), by_pairs(list(RUNS), list(PAIRS)))
def test_two_runs_of_one_kind(drawn, name, seeds):
    first, second = PAIRS[seeds]()
    before, warned = drawn.by(RUNS[name], random_state=first)
    assert before and not warned
    after, warned = drawn.by(RUNS[name], random_state=second)
    assert after
    assert warned == bool(before & after)
    assert warned == ("shared" not in seeds)
    assert drawn.by(RUNS[name]) == (set(), False)  # fresh noise is never said to be old


@pytest.mark.parametrize("names", [list(RUNS), list(RUNS)[::-1]], ids=["in order", "backward"])
def test_runs_of_all_kinds_one_after_another(drawn, names):
    before = set()
    for name in names:
        after, warned = drawn.by(RUNS[name], random_state=7)
        assert warned == bool(before & after), name
        before |= after


def test_clone_and_cross_validation_copy_a_generator(drawn):
    X, y, _ = table()
    first = clone(MODEL).set_params(random_state=np.random.default_rng())
    second = clone(first)
    assert [drawn.by(lambda model=model: words(model))[1] for model in (first, second)] == [False, True]
    assert drawn.by(lambda: cross_val_score(clone(MODEL).set_params(random_state=3), X, y, cv=2))[1]


def test_what_has_no_noise_may_be_repeated(drawn):
    for solver in ("auto", "scd", "sgd"):
        run = functools.partial(logistic, epsilon=math.inf, delta=None, solver=solver)
        for _ in range(2):
            assert drawn.by(run, random_state=3) == (set(), False)


# --- ledgers ----------------------------------------------------------------------------------------------------------

SEEDS = {
    "a number": lambda: 3,
    "a generator": lambda: np.random.default_rng(3),
    "an old one": lambda: np.random.RandomState(3),
}
NEIGHBOURS = {name: "replace-one" if name.startswith("vertical") else "zero-out" for name in RUNS}


@pytest.fixture
def ledger(tmp_path):
    book = sv.Ledger(f"sqlite:///{tmp_path}/budget.db")
    for adjacency, allowed in itertools.product(("zero-out", "replace-one"), (False, True)):
        book.create(f"{adjacency} {allowed}", epsilon=100.0, delta=1e-3, adjacency=adjacency, allow_nonprivate=allowed)
    return book


@pytest.mark.parametrize("name", RUNS)
def test_a_ledger_refuses_a_seed_unless_it_was_said_twice(ledger, name):
    for make in SEEDS.values():
        refusing = f"{NEIGHBOURS[name]} False"
        with pytest.raises(BudgetError, match=r"noise from a random_state.*Leave random_state out"):
            RUNS[name](ledger=ledger, dataset=refusing, random_state=make())
        assert ledger.history(refusing) == []
    taking = f"{NEIGHBOURS[name]} True"
    RUNS[name](ledger=ledger, dataset=taking, random_state=5)
    charged = ledger.history(taking)
    assert [charge.is_private for charge in charged] == [False]
    assert ledger.spent(taking)[0] > 0.5
    assert ledger.verify().ok


def test_a_receipt_of_a_seeded_run_is_refused_too(ledger):
    receipt = RUNS["ridge"](random_state=8).guarantee_
    with pytest.raises(BudgetError, match="noise from a random_state"):
        ledger.import_receipt("zero-out False", receipt)
    ledger.import_receipt("zero-out True", receipt)


@pytest.mark.parametrize("by", ["the party", "the estimator"])
def test_a_party_with_a_ledger_gives_no_noise_that_can_be_drawn_again(ledger, by):
    X, y, _ = table()
    for allowed in (False, True):
        account = {"ledger": ledger, "dataset": f"replace-one {allowed}"}
        parties = [
            vertical.Party(X[:, :2], name="one", y=y, data_norm=1.0, budget=(50.0, 1e-3)),
            vertical.Party(X[:, 2:], name="two", data_norm=1.0, **account),
        ]

        def seeded_fit(parties=parties):
            if by == "the party":
                parties[1].seed(4)
            seed = 5 if by == "the estimator" else None
            return vertical.VerticalLogisticRegression(**BUDGET, **TWO, random_state=seed).fit(parties)

        if allowed:
            assert seeded_fit().guarantee_.seeded
            assert [charge.seeded for charge in ledger.history(account["dataset"])] == [True]
            continue
        with pytest.raises(ParameterError, match="the ledger of party 'two' takes no noise that can be drawn again"):
            seeded_fit()
        assert ledger.history(account["dataset"]) == []
        assert parties[0].spent == NothingReleased()


def test_a_ledger_edited_to_hide_it_does_not_verify(ledger):
    """What an older version, or another program, charged with a seed is found."""
    RUNS["ridge"](ledger=ledger, dataset="zero-out True", random_state=5)
    book = ledger._now()
    entries = [read_row(row) for row in ledger._store.read()]
    reserve = next(entry for entry in entries if entry.kind == "reserve")
    account = book.account("zero-out True")
    object.__setattr__(account.dataset, "allow_nonprivate", False)
    assert "with a seed" in _overspent(book, reserve)[0]


def test_the_words(monkeypatch):
    monkeypatch.setattr(randomness, "_SEEDS_OF_NOISE", set())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "this is private fit")
        RUNS["ridge"](random_state=2**40)
    RUNS["evaluate"](random_state=2**41)
    for name, seed in (("evaluate", 2**41), ("ridge", 2**40)):
        with pytest.warns(PrivacyWarning, match=AGAIN) as told:
            found = RUNS[name](random_state=seed)
        assert next(one for one in told if AGAIN in str(one.message)).filename == __file__  # the line of the user
    assert found.guarantee_.statement().endswith("knows or guesses the seed, nor if the seed is used twice.")
