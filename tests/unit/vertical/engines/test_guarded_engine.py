"""The checks that all engines between processes share: commands are compared, and so are the numbers opened."""

import numpy as np
import pytest

from sottovoce.vertical.engines.engine import ComparedEngine, EngineError
from sottovoce.vertical.engines.guarded import Guarded
from sottovoce.vertical.engines.programs import Add, Mask


class _Alone(ComparedEngine):
    """An engine of one party whose partner says what the test wants."""

    bound = 1 << 62
    rank, n_parties = 0, 2

    def __init__(self):
        self.values, self.done, self.partner = {}, [], lambda own: own

    def start(self):
        pass

    def exchange(self, message):
        return [message, self.partner(message)]

    def put(self, name, owner, shape, value):
        self.values[name] = np.zeros(shape, np.int64) if value is None else value
        self.done.append("put")

    def run(self, program, inputs, outputs):
        results = program.in_clear(*(self.values[name] for name in inputs))
        self.values.update(zip(outputs, results, strict=True))
        self.done.append("run")

    def reveal(self, name):
        self.done.append("reveal")
        return self.values[name]

    def drop(self, *names):
        self.done.append("drop")

    def close(self):
        self.done.append("close")


@pytest.fixture
def engine():
    return _Alone()


@pytest.fixture
def guarded(engine):
    guarded = Guarded(engine)
    guarded.put("a", 0, (2,), np.array([1, 2]))
    guarded.put("b", 1, (2,), None)
    return guarded


def test_what_agrees_is_done(engine, guarded):
    guarded.run(Mask(), ["a", "b"], ["c"])
    assert guarded.reveal("c").tolist() == [1, 2]
    guarded.drop("a")
    guarded.close()
    assert engine.done == ["put", "put", "run", "reveal", "drop", "close"]


def test_nothing_runs_that_the_partner_does_not_run(engine, guarded):
    engine.partner = lambda own: bytes(32)
    with pytest.raises(EngineError, match="party 1 has been given other commands"):
        guarded.run(Mask(), ["a", "b"], ["c"])
    assert engine.done == ["put", "put", "close"]


def test_nothing_is_opened_that_the_partner_does_not_open(engine, guarded):
    guarded.run(Mask(), ["a", "b"], ["c"])
    engine.partner = lambda own: bytes(32)
    with pytest.raises(EngineError, match="party 1 has been given other commands"):
        guarded.reveal("c")
    assert "reveal" not in engine.done


@pytest.mark.parametrize(
    "again",
    [
        lambda engine: engine.put("c", 0, (2,), np.array([7, 7])),
        lambda engine: engine.run(Add(), ["a", "b"], ["c"]),
        lambda engine: [engine.drop("c"), engine.put("c", 0, (2,), np.array([7, 7]))],
    ],
)
def test_a_name_that_was_masked_opens_nothing_else(engine, guarded, again):
    guarded.run(Mask(), ["a", "b"], ["c"])
    again(guarded)
    with pytest.raises(EngineError, match="only what the program Mask"):
        guarded.reveal("c")
    assert "reveal" not in engine.done


def test_numbers_that_differ_between_parties_are_not_given(engine, guarded):
    guarded.run(Mask(), ["a", "b"], ["c"])
    answers = iter((lambda own: own, lambda own: bytes(32)))
    engine.partner = lambda own: next(answers)(own)
    with pytest.raises(EngineError, match="party 1 has opened other numbers"):
        guarded.reveal("c")


def test_a_partner_that_does_not_answer_is_not_an_agreement(engine, guarded):
    engine.exchange = lambda message: [message]
    with pytest.raises(EngineError, match="not all parties have answered"):
        guarded.run(Add(), ["a", "b"], ["c"])


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (lambda engine: engine.reveal("a"), "only what the program Mask"),
        (lambda engine: engine.put("c", 1, (1,), np.zeros(1, np.int64)), "and nobody else, gives its value"),
        (lambda engine: engine.put("c", 0, (1,), None), "and nobody else, gives its value"),
        (lambda engine: engine.put("c", 0, (1,), np.zeros(1)), "64-bit whole numbers"),
        (lambda engine: engine.put("c", 0, (2,), np.zeros(1, np.int64)), "of shape"),
        (lambda engine: engine.run(Add(), ["a", "nothing"], ["c"]), "no secret variable 'nothing'"),
        (lambda engine: engine.reveal("nothing"), "no secret variable 'nothing'"),
        (lambda engine: engine.drop("c"), "no secret variable"),
    ],
)
def test_an_error_ends_the_session(engine, guarded, command, why):
    with pytest.raises(EngineError, match=why):
        command(guarded)
    done = list(engine.done)
    with pytest.raises(EngineError, match="is over"):
        guarded.run(Add(), ["a", "b"], ["c"])
    assert engine.done == done


def test_every_command_is_part_of_what_is_compared(engine):
    """Two parties that differ in any one command do not tell the same."""
    told = []
    for commands in (
        [lambda e: e.put("a", 1, (2,), None)],
        [lambda e: e.put("b", 1, (2,), None), lambda e: e.put("a", 1, (2,), None)],
        [lambda e: e.put("a", 1, (3,), None)],
        [lambda e: e.put("a", 1, (2,), None), lambda e: e.drop("a"), lambda e: e.put("a", 1, (2,), None)],
        [lambda e: e.put("a", 1, (2,), None), lambda e: e.run(Add(), ["a"], ["b"])],
        [lambda e: e.put("a", 0, (2,), np.zeros(2, np.int64))],
    ):
        engine = _Alone()
        engine.partner = lambda own: told.append(own) or own
        guarded = Guarded(engine)
        for command in commands:
            command(guarded)
        guarded.run(Mask(), ["a"], ["c"])
    assert len(told) == 7
    assert len(set(told)) == 7
