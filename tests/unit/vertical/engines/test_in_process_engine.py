"""Parties that share a process: they meet at every command, must agree, and are freed when one of them fails."""

import numpy as np
import pytest

from sottovoce.vertical.engines import in_process
from sottovoce.vertical.engines.engine import EngineError
from sottovoce.vertical.engines.guarded import CHECKED, self_check
from sottovoce.vertical.engines.in_process import InProcessEngine
from sottovoce.vertical.engines.programs import Add, Mask
from support.joint import both, engines_of


def _begun(n_parties=2, timeout=5.0):
    engines = engines_of(n_parties, timeout)
    both(engines, lambda engine: engine.start())
    return engines


def _put(engine, name, owner, value):
    value = np.asarray(value, dtype=np.int64)
    engine.put(name, owner, value.shape, value if engine.rank == owner else None)


@pytest.mark.parametrize("n_parties", [1, 2, 3, 5])
def test_bit_for_bit(n_parties):
    both(_begun(n_parties), lambda engine: self_check(engine, 1))


@pytest.mark.parametrize("program", CHECKED, ids=str)
def test_an_engine_that_is_off_by_one_is_noticed_before_data_are_shared(program, monkeypatch):
    run = in_process._Clear.run

    def wrong(self, program, inputs, outputs):
        run(self, program, inputs, outputs)
        if self.rank == 0 and not isinstance(program, Mask):
            self._entered().values[outputs[-1]].flat[0] += 1

    monkeypatch.setattr(in_process._Clear, "run", wrong)
    engines = _begun()

    def work(engine):
        with pytest.raises(EngineError, match=f"the self-test failed: {type(program).__name__} gives other numbers"):
            self_check(engine, 1, [program])

    both(engines, work)


def test_numbers_wrap_at_2_64():
    def work(engine):
        _put(engine, "a", 0, [(1 << 63) - 1])
        _put(engine, "b", 1, [1])
        engine.run(Mask(), ["a", "b"], ["c"])
        return engine.reveal("c")

    assert [opened.tolist() for opened in both(_begun(), work)] == [[-(1 << 63)]] * 2


@pytest.mark.parametrize(
    "other",
    [
        lambda engine: engine.run(Mask(), ["a", "b"], ["c"]),
        lambda engine: engine.run(Add(), ["a", "a"], ["c"]),
        lambda engine: engine.run(Add(), ["a", "b"], ["d"]),
        lambda engine: engine.drop("a"),
        lambda engine: _put(engine, "c", 1, [0]),
    ],
)
def test_parties_that_are_told_different_things_all_end(other):
    def work(engine):
        _put(engine, "a", 0, [1])
        _put(engine, "b", 1, [1])
        with pytest.raises(EngineError, match="other commands"):
            other(engine) if engine.rank else engine.run(Add(), ["a", "b"], ["c"])
        with pytest.raises(EngineError, match="is over"):
            engine.drop("b")

    both(_begun(), work)


def test_a_party_that_does_not_come_ends_the_others():
    def work(engine):
        if engine.rank:
            with pytest.raises(EngineError, match=r"party 0 did not come .* within 0.2 s"):
                _put(engine, "a", 0, [1])

    both(_begun(3, timeout=0.2), work)


def test_a_party_that_leaves_frees_the_others():
    def work(engine):
        if engine.rank == 0:
            engine.close()
            engine.close()
        else:
            with pytest.raises(EngineError, match="party 0 has left"):
                _put(engine, "a", 0, [1])
        with pytest.raises(EngineError):
            engine.drop("a")

    both(_begun(3), work)


def test_a_result_is_given_to_all_even_if_one_leaves_at_once():
    def work(engine):
        _put(engine, "a", 0, [4])
        engine.run(Mask(), ["a"], ["c"])
        opened = engine.reveal("c")
        engine.close()
        return opened.tolist()

    for _ in range(20):
        assert both(_begun(3), work) == [[4]] * 3


def test_a_command_that_one_party_alone_gets_wrong_frees_the_others():
    def work(engine):
        with pytest.raises(EngineError, match="party 0 has left" if engine.rank else "gives its value"):
            engine.put("a", 0, (1,), None)

    both(_begun(2), work)


def test_a_place_is_taken_once():
    first = _begun(2)
    second = InProcessEngine(first[0]._engine._session, 1, 2, timeout=1)
    with pytest.raises(EngineError, match="has no place"):
        second.start()


def test_a_command_before_the_start_is_refused():
    with pytest.raises(EngineError, match="has not been started"):
        InProcessEngine(b"x", 0, 1).put("a", 0, (1,), np.ones(1, np.int64))


def test_what_a_party_changes_later_does_not_count():
    def work(engine):
        mine = np.array([5], dtype=np.int64)
        engine.put("a", 0, (1,), mine if engine.rank == 0 else None)
        mine[:] = 6
        engine.run(Mask(), ["a"], ["c"])
        return engine.reveal("c").tolist()

    assert both(_begun(), work) == [[5], [5]]


def test_one_that_was_closed_before_its_thread_started_it_waits_for_nobody():
    """A training may end between the order to meet and the meeting; its thread then waited for ten minutes."""
    engine, _ = engines_of(2, 2.0)
    engine.close()
    with pytest.raises(EngineError, match="is over; begin a new one"):
        engine.start()
