"""A whole joint training with a thread a party: what is opened, step by step, and how often."""

import secrets
from functools import partial

import numpy as np

from sottovoce.randomness import Purpose, Streams
from sottovoce.vertical.engines.in_process import InProcessEngine
from support.joint import both


class CountingEngine(InProcessEngine):
    """Keeps the names of what is there, and of what was opened."""

    def __init__(self, session, rank, n_parties):
        super().__init__(session, rank, n_parties, timeout=60)
        self.names, self.opened = set(), []

    def put(self, name, owner, shape, value):
        super().put(name, owner, shape, value)
        self.names.add(name)

    def run(self, program, inputs, outputs):
        super().run(program, inputs, outputs)
        self.names.update(outputs)

    def reveal(self, name):
        self.opened.append(name)
        return super().reveal(name)

    def drop(self, *names):
        super().drop(*names)
        self.names.difference_update(names)


def run_jointly(plan, tables, y, *, noise=None, seed=0, engines=None):
    """Return the fitting, and all that was opened, step by step.

    ``noise`` draws the shares of (step, name); by default the plan's, from seeded streams.
    """
    n, session = len(plan.ranks), secrets.token_bytes(16)
    engines = engines or [CountingEngine(session, rank, n) for rank in range(n)]
    streams = {name: Streams(seed * 1000 + rank).generator(Purpose.NOISE) for rank, name in enumerate(plan.ranks)}
    noise = noise or (lambda step, name: plan.shares(step, name, streams[name]))
    fitting, opened, points = plan.fitting(), [], {}
    scripts = [
        plan.script(name, engine, tables.get(name), y if name == plan.label_holder else None)
        for name, engine in zip(plan.ranks, engines, strict=True)
    ]

    def work(engine, step):
        if step == 0:
            engine.start()
        return scripts[engine.rank].open(step, points, noise(step, plan.ranks[engine.rank]))

    for step in range(plan.n_steps + 1):
        results = both(engines, partial(work, step=step))
        for result in results[1:]:
            np.testing.assert_array_equal(result, results[0])
        opened.append(results[0])
        points = fitting.take(results[0])
    assert points is None
    return fitting, opened
