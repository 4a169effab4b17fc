"""Everything that one run releases, and its exact likelihood ratio for two neighbouring tables.

Shared by the audits. `Transcript` wraps the mechanisms; a second run, on the neighbour, is shown the same values, so
that it is known what each release would have been around under either table.
"""

import math

import numpy as np

from sottovoce.central.data.operation import RowSum
from sottovoce.central.sums.passes import Slopes
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.privacy.mechanisms.randomized_response import RandomizedResponse
from support.audits.audit import Ratios
from support.noise import Scaled


class Transcript:
    """Everything that one fit releases; a second fit, on the neighbour, is shown the same values.

    Then it is known what each release would have been around under either table, and so the likelihood ratio.
    """

    def __init__(self, monkeypatch, factor):
        self.shown, self.trace, self.factor = [], [], factor
        self.gaussian, self.response = GridGaussian.release, RandomizedResponse.release
        threshold = RandomizedResponse.__dict__["_threshold"].func
        monkeypatch.setattr(RandomizedResponse, "_threshold", property(lambda one: int(factor * threshold(one))))
        monkeypatch.setattr(GridGaussian, "release", lambda *given: self.noisy(*given))
        monkeypatch.setattr(RandomizedResponse, "release", lambda *given: self.answered(*given))
        monkeypatch.setattr(Slopes, "descend", RowSum.descend)  # step by step, where each release is by itself

    def noisy(self, mechanism, ticks, noise):
        draw = self.gaussian
        value = self.next(lambda: draw(mechanism, ticks, Scaled(noise, self.factor))[0])
        self.trace.append(("gaussian", ticks * mechanism.tick, self.factor * mechanism.noise_std))
        return value, mechanism.event

    def answered(self, response, true, coins):
        value = self.next(lambda: self.response(response, true, coins)[0])
        self.trace.append(("response", true, math.log((1 - response.flip_probability) / response.flip_probability)))
        return value, response.event

    def next(self, draw):
        if len(self.shown) == len(self.trace):
            self.shown.append(draw())
        return self.shown[len(self.trace)]

    def ratio(self, fit, neighbour):
        """Return the log-likelihood ratio of what ``fit`` releases, for its table against the neighbour's."""
        self.shown.clear()
        traces = []
        for run in (fit, neighbour):
            self.trace.clear()
            run()
            traces.append(list(self.trace))
        total = 0.0
        for value, (kind, mine, scale), (_, theirs, same) in zip(self.shown, *traces, strict=True):
            assert scale == same  # the noise does not follow from the table
            if kind == "gaussian":
                total += float(np.vdot(value - 0.5 * (mine + theirs), mine - theirs)) / scale**2
            else:
                total += 0.5 * scale * float(value @ (mine - theirs))
        return total

    def scores(self, fits, runs):
        """Return the ratio first : second for ``runs`` fits on each of two tables."""
        first = [self.ratio(lambda s=s: fits[0](s), lambda s=s: fits[1](s)) for s in range(runs)]
        second = [self.ratio(lambda s=s: fits[1](s), lambda s=s: fits[0](s)) for s in range(runs, 2 * runs)]
        return np.array(first), -np.array(second)


def ratios(run, factor, patch, epsilon=1.0):
    """Return the exact likelihood ratios of all that ``run(place, noise)`` releases from the table at either place."""
    fits = [lambda seed, place=place: run(place, np.random.default_rng(seed)) for place in (0, 1)]
    return Ratios(*Transcript(patch, factor).scores(fits, 1500), epsilon)
