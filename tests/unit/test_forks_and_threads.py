"""Forks and threads: no two processes draw the same noise, no two fits mix, no budget is spent twice."""

import contextlib
import copy
import os
import pickle
import threading
import warnings

import numpy as np
import pytest

import sottovoce as sv
from sottovoce._whole_fit import whole_fit
from sottovoce.central.parallel import _LIMIT
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.events import GaussianEvent
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.randomness import Purpose, Streams
from sottovoce.vertical import (
    InProcessParties,
    Party,
    VerticalLogisticRegression,
    VerticalSparseLogisticRegression,
    split_columns,
)
from sottovoce.vertical.party.budget import PartyBudget
from sottovoce.vertical.requests.general import Describe, Description
from sottovoce.vertical.wire import Payload
from support.forked import in_child, needs_fork
from support.one_training import cost, order
from support.party import Line, decode

rng = np.random.default_rng(0)
X = rng.uniform(-0.5, 0.5, (80, 4))
Y = np.where(X[:, 0] > 0, 1, 0)
T = np.clip(X[:, 0], -1.0, 1.0)
RIDGE = {"epsilon": 1.0, "delta": 1e-5, "data_norm": 1.0, "label_bounds": (-1.0, 1.0), "solver": "scd"}


def at_once(*tasks):
    """Run the tasks in threads, and return their results or errors."""
    results = [None] * len(tasks)

    def run(place):
        try:
            results[place] = tasks[place]()
        except Exception as error:
            results[place] = error

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return results


# --- forks ------------------------------------------------------------------------------------------------------------


@needs_fork
@pytest.mark.parametrize("purpose", Purpose)
@pytest.mark.parametrize("drawn_before", [0, 1, 1000])
def test_a_stream_that_is_open_during_a_fork_has_another_key_in_the_child(purpose, drawn_before):
    held = Streams().generator(purpose)  # the Streams object itself is gone by the fork
    held.integers(2**32, size=drawn_before, dtype=np.uint32)  # an odd number leaves half a word buffered

    def draw():
        return held.integers(2**32, size=500, dtype=np.uint32).tobytes()

    theirs, ours = np.frombuffer(in_child(draw), np.uint32), np.frombuffer(draw(), np.uint32)
    assert len(theirs) == 500
    assert np.intersect1d(ours, theirs).size <= 2  # equal words by chance: 6e-5 on average


@needs_fork
def test_a_seeded_stream_goes_on_in_both():
    held = Streams(3).generator(Purpose.NOISE)
    assert in_child(lambda: held.bytes(32)) == held.bytes(32)


@needs_fork
def test_a_fit_that_is_forked_in_the_middle_releases_other_noise_in_each_process(monkeypatch):
    """The child goes on with the fit of its parent, as after a fork in a callback."""
    release, child = GridGaussian.release, []

    def forking(self, ticks, noise):
        if not child:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                child.append(os.fork())
        return release(self, ticks, noise)

    monkeypatch.setattr(GridGaussian, "release", forking)
    read, write = os.pipe()
    code = 1
    try:
        model = sv.DPRidge(**{**RIDGE, "solver": "adassp"}).fit(X, T)
        coef = model.coef_.tobytes()
        if child[0] == 0:
            os.write(write, coef)
            code = 0
    finally:
        if child and child[0] == 0:
            os._exit(code)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        theirs = pipe.read()
    assert os.waitpid(child[0], 0)[1] == 0
    assert len(theirs) == len(coef)
    assert not np.isin(np.frombuffer(theirs), np.frombuffer(coef)).any()


@needs_fork
def test_parties_are_of_one_process_and_are_not_copied(monkeypatch):
    """Budget, sessions and noise are of one object; a child is told so at once, whatever another thread holds."""
    party = Party(X, name="a", data_norm=1.0, budget=(2.0, 1e-5))
    parties = InProcessParties([party])
    line = Line(party)
    raw = line.frame(order(80, 0.3))
    inside, go_on = threading.Event(), threading.Event()
    release = GridGaussian.release

    def waiting(self, ticks, noise):
        inside.set()
        go_on.wait(60)
        return release(self, ticks, noise)

    def in_words():
        with pytest.raises(ParameterError, match="these parties are of another process"):
            parties.ask("a", Describe(), Description)
        with pytest.raises(ParameterError, match="these parties are of another process"), parties.session():
            pass
        return party.handle(raw)

    monkeypatch.setattr(GridGaussian, "release", waiting)
    thread = threading.Thread(target=lambda: parties.ask("a", order(80, 0.3), Payload))
    thread.start()
    assert inside.wait(60)
    try:
        assert "it was made in another process" in decode(in_child(in_words)).reason
    finally:
        go_on.set()
        thread.join()
    assert party.spent == cost(0.3)  # charged where it was made
    for held in (party, parties):
        for make in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied"):
                make(held)


@needs_fork
def test_a_fit_of_another_thread_does_not_block_its_object_in_a_child():
    model = sv.DPRidge(**RIDGE, random_state=0)
    inside, go_on = threading.Event(), threading.Event()

    @whole_fit
    def hold(model):
        with _LIMIT.lock:  # asks for products on one thread
            inside.set()
            go_on.wait(60)

    thread = threading.Thread(target=hold, args=[model])
    thread.start()
    inside.wait(60)
    try:
        theirs = in_child(lambda: model.fit(X, T).coef_.tobytes())
        with pytest.raises(ParameterError, match="this DPRidge is being fitted already"):
            model.fit(X, T)
    finally:
        go_on.set()
        thread.join()
    assert theirs == model.fit(X, T).coef_.tobytes()


# --- threads ----------------------------------------------------------------------------------------------------------


def test_two_estimators_in_two_threads_are_as_one_after_the_other():
    def make(seed):
        return sv.DPLogisticRegression(
            epsilon=1.0, delta=1e-5, data_norm=1.0, classes=[0, 1], random_state=seed, solver="sgd"
        )

    alone = [make(seed).fit(X, Y).coef_ for seed in range(4)]
    together = at_once(*(lambda seed=seed: make(seed).fit(X, Y).coef_ for seed in range(4)))
    np.testing.assert_array_equal(together, alone)


def test_private_fits_in_threads_share_no_noise():
    whole = {"calibration_share": 0.0}  # with a slope at the end some models of so few rows are all zeros
    found = at_once(*(lambda: sv.DPRidge(**RIDGE, solver_options=whole).fit(X, T).coef_ for _ in range(4)))
    assert len(np.unique(np.concatenate(found))) == 16


def fits_while_fitting(fit, again, monkeypatch):
    """Run ``fit``; while it runs, run ``again`` in another thread, and return its error."""
    release, found = GridGaussian.release, []

    def meeting(self, ticks, noise):
        if not found:
            found.append(None)
            found[:] = at_once(again)
        return release(self, ticks, noise)

    monkeypatch.setattr(GridGaussian, "release", meeting)
    fit()
    monkeypatch.undo()
    return found[0]


def test_one_estimator_is_fitted_by_one_thread_at_a_time(monkeypatch):
    model = sv.DPRidge(**RIDGE)
    error = fits_while_fitting(lambda: model.fit(X, T), lambda: model.fit(X, T), monkeypatch)
    assert isinstance(error, ParameterError)
    assert "Give each thread an estimator of its own: sklearn.base.clone" in str(error)
    assert model.predict(X).shape == (80,)
    model.fit(X, T)  # and is free afterwards


@pytest.mark.parametrize("kind", ["local models", "Frank-Wolfe"])
def test_fits_at_once_on_the_same_parties_are_as_one_after_the_other(kind):
    """Each in a session of its own: seeds of one are not those of another, and steps do not mix."""
    bounds = {"a": 1.0, "b": 1.0}
    parties = split_columns(X, {"a": [0, 1], "b": [2, 3]}, data_norm=bounds, data_bound=bounds)

    def fit(seed):
        shared = {"epsilon": 2.0, "delta": 1e-5, "labels_public": True, "random_state": seed}
        if kind == "local models":
            model = VerticalLogisticRegression(**shared)
        else:
            model = VerticalSparseLogisticRegression(**shared, radius=2.0, n_steps=3)
        return model.fit(parties, Y).decision_function(parties)

    alone = [fit(seed) for seed in range(4)]
    together = at_once(*(lambda seed=seed: fit(seed) for seed in range(4)))
    np.testing.assert_array_equal(together, alone)
    for party in parties.parties.values():  # what a fit held is given back at its end
        assert not any(session.worker for session in party._sessions.values())


def test_a_budget_that_two_threads_charge_at_once_is_not_overspent(monkeypatch):
    budget = PartyBudget((2.0, 1e-5))
    event, barrier = GaussianEvent(2.5), threading.Barrier(2)
    assert not budget.shortage(event)
    shortage = PartyBudget.shortage

    def slow(self, event):
        answer = shortage(self, event)
        with contextlib.suppress(threading.BrokenBarrierError):
            barrier.wait(0.3)  # both would be here at once if nothing kept them apart
        return answer

    monkeypatch.setattr(PartyBudget, "shortage", slow)
    answers = at_once(lambda: budget.charge(event), lambda: budget.charge(event))
    assert sorted(map(bool, answers)) == [False, True]
    assert budget.spent == event
