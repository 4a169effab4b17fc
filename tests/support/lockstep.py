"""Parties of a joint computation as threads of one process, in clear and in lockstep: what tests compare with."""

import threading

import numpy as np

from sottovoce.vertical.engines.engine import Engine, EngineError


class Lockstep:
    """What all parties share."""

    def __init__(self, n_parties):
        self.barrier = threading.Barrier(n_parties, timeout=60)
        self.variables, self.opens = {}, set()
        self.opened = []


class LockstepEngine(Engine):
    """One party's end."""

    name = "in-process"
    bound = 2**62

    def __init__(self, shared, rank, n_parties):
        self.shared, self.rank, self.n_parties = shared, rank, n_parties

    def start(self):
        """Begin."""

    def put(self, name, owner, shape, value):
        if self.rank == owner:
            assert value.shape == shape and value.dtype == np.int64
            self.shared.variables[name] = value
            self.shared.opens.discard(name)
        else:
            assert value is None
        self.shared.barrier.wait()

    def run(self, program, inputs, outputs):
        if self.shared.barrier.wait() == 0:
            results = program.in_clear(*(self.shared.variables[name] for name in inputs))
            for name, result in zip(outputs, results, strict=True):
                self.shared.variables[name] = result
                (self.shared.opens.add if program.opens else self.shared.opens.discard)(name)
        self.shared.barrier.wait()

    def reveal(self, name):
        if name not in self.shared.opens:
            raise EngineError(f"{name} may not be opened.")
        value = self.shared.variables[name].copy()
        if self.shared.barrier.wait() == 0:
            self.shared.opened.append(name)
        return value

    def drop(self, *names):
        self.shared.barrier.wait()
        if self.rank == 0:
            for name in names:
                del self.shared.variables[name]
        self.shared.barrier.wait()

    def close(self):
        """End."""


def run_jointly(plan, tables, y, *, noise=None, seed=0, engines=None):
    """Run a whole joint training with a thread a party; return the fitting, and all that was opened, step by step.

    ``noise`` draws the shares of (step, name); by default the plan's, from seeded streams.
    """
    from sottovoce.randomness import Purpose, Streams

    n, shared = len(plan.ranks), Lockstep(len(plan.ranks))
    engines = engines or [LockstepEngine(shared, rank, n) for rank in range(n)]
    streams = {name: Streams(seed * 1000 + rank).generator(Purpose.NOISE) for rank, name in enumerate(plan.ranks)}
    noise = noise or (lambda step, name: plan.shares(step, name, streams[name]))
    fitting, opened, points = plan.fitting(), [], [None]
    results, failed = [None] * n, []
    scripts = [plan.script(name, engine) for name, engine in zip(plan.ranks, engines, strict=True)]
    rows = {name: plan.rows(name, table) for name, table in tables.items()}
    labels = plan.whole_labels(y)

    def work(rank, step):
        name = plan.ranks[rank]
        try:
            if step == 0:
                mine = labels if name == plan.label_holder else None
                results[rank] = scripts[rank].begin(rows.get(name), mine, noise(0, name))
            else:
                margins = plan.margins(name, rows[name], points[0][name]) if name in rows else None
                results[rank] = scripts[rank].step(step, margins, noise(step, name))
        except BaseException as error:
            failed.append(error)
            shared.barrier.abort()

    for step in range(plan.n_steps + 1):
        threads = [threading.Thread(target=work, args=(rank, step)) for rank in range(n)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
        for result in results[1:]:
            np.testing.assert_array_equal(result, results[0])
        opened.append(results[0])
        points[0] = fitting.moments(results[0]) if step == 0 else fitting.step(results[0])
    assert points[0] is None
    return fitting, opened
