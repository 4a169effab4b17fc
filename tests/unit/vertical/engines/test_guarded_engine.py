"""What all engines check, on parties that share a process: they meet, must agree, and are freed when one of them fails.

Between processes engines compare where something is run or opened; an `InProcessEngine` does at every command.
"""

import secrets

import numpy as np
import pytest

from sottovoce.vertical.engines.engine import CHECKED, EngineError, self_check
from sottovoce.vertical.engines.in_process import InProcessEngine
from sottovoce.vertical.engines.programs import Add, Mask
from support.joint import both, engines_of


class Lazy(InProcessEngine):
    meets_at_all = False  # as between processes


def lazy(n_parties, timeout=5.0):
    session = secrets.token_bytes(8)
    return [Lazy(session, rank, n_parties, timeout) for rank in range(n_parties)]


def begun(n_parties=2, timeout=5.0, make=engines_of):
    engines = make(n_parties, timeout)
    both(engines, lambda engine: engine.start())
    return engines


def put(engine, name, owner, value):
    value = np.asarray(value, dtype=np.int64)
    engine.put(name, owner, value.shape, value if engine.rank == owner else None)


@pytest.fixture
def alone():
    """One party without partners, that has "a"."""
    (engine,) = begun(1, make=lazy)
    put(engine, "a", 0, [1, 2])
    return engine


@pytest.mark.parametrize("n_parties", [1, 2, 3, 5])
def test_bit_for_bit(n_parties):
    both(begun(n_parties), lambda engine: self_check(engine, 1))


@pytest.mark.parametrize("program", CHECKED, ids=str)
def test_an_engine_that_is_off_by_one_is_noticed_before_data_are_shared(program, monkeypatch):
    run = InProcessEngine._run

    def wrong(self, program, inputs, outputs):
        run(self, program, inputs, outputs)
        if self.rank == 0 and not isinstance(program, Mask):
            self._entered().values[outputs[-1]].flat[0] += 1

    monkeypatch.setattr(InProcessEngine, "_run", wrong)

    def work(engine):
        with pytest.raises(EngineError, match=f"the self-test failed: {type(program).__name__} gives other numbers"):
            self_check(engine, 1, [program])

    both(begun(), work)


def test_numbers_wrap_at_2_64_and_what_a_party_changes_later_does_not_count():
    def work(engine):
        mine = np.array([(1 << 63) - 1])
        engine.put("a", 0, (1,), mine if engine.rank == 0 else None)
        mine[:] = 6
        put(engine, "b", 1, [1])
        engine.run(Mask(), ["a", "b"], ["c"])
        return engine.reveal("c").tolist()

    assert both(begun(), work) == [[-(1 << 63)]] * 2


@pytest.mark.parametrize("make", [engines_of, lazy])
@pytest.mark.parametrize(
    "other",
    [
        lambda engine: engine.run(Mask(), ["a", "b"], ["c"]),
        lambda engine: engine.run(Add(), ["a", "a"], ["c"]),
        lambda engine: engine.run(Add(), ["a", "b"], ["d"]),
        lambda engine: [engine.drop("a"), engine.run(Add(), ["b"], ["c"])],
        lambda engine: [put(engine, "c", 1, [0]), engine.run(Add(), ["a", "b"], ["c"])],
        lambda engine: [put(engine, "a", 0, [0, 0]), engine.run(Add(), ["a", "b"], ["c"])],
        lambda engine: engine.reveal("b"),
    ],
)
def test_parties_that_are_told_different_things_all_end_and_nothing_is_run(make, other, monkeypatch):
    engines, ran, run = begun(make=make), [], InProcessEngine._run
    monkeypatch.setattr(InProcessEngine, "_run", lambda *given: (ran.extend(given[-1]), run(*given)))

    def work(engine):
        put(engine, "a", 0, [1])
        engine.run(Mask(), ["a"], ["b"])
        with pytest.raises(EngineError, match="has been given other commands"):
            other(engine) if engine.rank else engine.run(Add(), ["a", "b"], ["c"])
        with pytest.raises(EngineError, match="is over"):
            engine.drop("b")

    both(engines, work)
    assert not {"c", "d"} & {*ran}


def test_every_command_is_part_of_what_is_compared():
    """Two parties that differ in any one command do not tell the same."""
    told = []
    for commands in (
        [("a", 0, (2,))], [("b", 0, (2,)), ("a", 0, (2,))], [("a", 0, (3,))], [("a", 0, (2,)), "a", ("a", 0, (2,))],
        [("a", 1, (2,))],
    ):  # fmt: skip
        (engine,) = begun(1, make=lazy)
        engine.exchange = lambda own: told.append(own) or [b"x"]  # not before something is run
        for command in commands:
            if command == "a":
                engine.drop("a")
            else:
                engine.put(*command, np.zeros(command[2], np.int64) if command[1] == 0 else None)
        with pytest.raises(EngineError, match="party 0 has been given other commands"):
            engine.run(Mask(), ["a"], ["c"])
    assert len(set(told)) == len(told) == 5


@pytest.mark.parametrize(
    ("told", "why"),
    [([], "not all parties have answered"), ([b"other"], "party 0 has opened other numbers; use none of them")],
)
def test_numbers_that_not_all_have_opened_alike_are_not_given(alone, told, why):
    alone.run(Mask(), ["a"], ["c"])
    answers = [lambda own: [own], lambda own: [b""], lambda own: told]
    alone.exchange = lambda own: answers.pop(0)(own)
    with pytest.raises(EngineError, match=why):
        alone.reveal("c")


@pytest.mark.parametrize(
    "again",
    [
        lambda engine: put(engine, "c", 0, [7, 7]),
        lambda engine: engine.run(Add(), ["a", "a"], ["c"]),
        lambda engine: [engine.drop("c"), put(engine, "c", 0, [7, 7])],
    ],
)
def test_a_name_that_was_masked_opens_nothing_else(alone, again):
    alone.run(Mask(), ["a"], ["c"])
    assert alone.reveal("c").tolist() == [1, 2]
    again(alone)
    with pytest.raises(EngineError, match="only what the program Mask"):
        alone.reveal("c")


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
def test_an_error_ends_the_session(alone, command, why):
    with pytest.raises(EngineError, match=why):
        command(alone)
    with pytest.raises(EngineError, match=r"^this joint computation is over; begin a new one"):
        alone.run(Add(), ["a"], ["c"])
    assert alone._room is None


def test_a_party_that_does_not_come_or_leaves_frees_the_others():
    def late(engine):
        if engine.rank:
            with pytest.raises(EngineError, match=r"party 0 did not come .* within 0.2 s"):
                put(engine, "a", 0, [1])

    both(begun(3, timeout=0.2), late)

    def wrong(engine):
        with pytest.raises(EngineError, match="party 0 has left" if engine.rank else "gives its value"):
            engine.put("a", 0, (1,), None)
        engine.close()
        with pytest.raises(EngineError):
            engine.drop("a")

    both(begun(3), wrong)


def test_a_result_is_given_to_all_even_if_one_leaves_at_once():
    def work(engine):
        put(engine, "a", 0, [4])
        engine.run(Mask(), ["a"], ["c"])
        opened = engine.reveal("c")
        engine.close()
        return opened.tolist()

    for _ in range(20):
        assert both(begun(3), work) == [[4]] * 3


def test_a_place_is_taken_once_after_a_start_and_before_a_close():
    first = begun(2)
    with pytest.raises(EngineError, match="has no place"):
        InProcessEngine(first[0]._session, 1, 2, timeout=1).start()
    with pytest.raises(EngineError, match="has not been started"):
        InProcessEngine(b"x", 0, 1).put("a", 0, (1,), np.ones(1, np.int64))
    # a training may end between the order to meet and the meeting; its thread then waited for ten minutes
    engine, _ = engines_of(2, 2.0)
    engine.close()
    with pytest.raises(EngineError, match="is over; begin a new one"):
        engine.start()
