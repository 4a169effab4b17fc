"""The party's side of ADMM with the published noise: exact ADMM's, with another worker."""

import numpy as np

from sottovoce.published.vertical_admm.messages import PublishedStart
from sottovoce.published.vertical_admm.noise import PublishedNoise, lemma_1_bound, theorem_3_std
from sottovoce.vertical.protocol import Desk, Uncharged
from sottovoce.vertical.protocols.exact.admm import AdmmWorker
from sottovoce.vertical.protocols.exact.messages import AdmmReply, AdmmStart, AdmmStep
from sottovoce.vertical.protocols.exact.subproblem import Subproblem
from sottovoce.vertical.wire import Done

__all__ = ["PublishedStartHandler", "PublishedWorker", "noise_std"]


class PublishedWorker(AdmmWorker):
    """The party's side: as in `AdmmWorker`, with the published noise on the coefficients before D x is sent.

    Parameters
    ----------
    problem : Subproblem
    start : AdmmStart
    published : PublishedStart
    generator : numpy.random.Generator
    """

    def __init__(
        self, problem: Subproblem, start: AdmmStart, published: PublishedStart, generator: np.random.Generator
    ) -> None:
        super().__init__(problem, start)
        columns = problem.columns
        self._noise = PublishedNoise(columns.dense_by_column() if columns.intercept else columns.table)
        self.noise_std = noise_std(columns.n_columns, l2=problem.penalty.l2, rho=start.rho, published=published)
        self._generator = generator

    def step(self, message: AdmmStep) -> AdmmReply:
        """Update the coefficients, add noise to them, and return D x."""
        reply = super().step(message)
        noise = self._noise.draw(self.noise_std, self._generator)
        self.x = self.x + noise.weights
        self.scores = self.scores + noise.message
        self._gram_x = self.problem.gram_times(self.x, self.scores)
        return AdmmReply(self.scores, reply.stationarity, self.problem.penalty_of(self.x))


def noise_std(n_columns: int, *, l2: float, rho: float, published: PublishedStart) -> float:
    """Return the sigma of Theorem 3 at a party with so many columns."""
    bound = lemma_1_bound(
        n_columns,
        penalty=l2,
        curvature=1.0,
        rho=rho,
        n_parties=published.n_parties,
        norm_bound=published.norm_bound,
    )
    return theorem_3_std(bound, epsilon=published.epsilon, delta=published.delta)


class PublishedStartHandler(Uncharged[PublishedStart]):
    """The noise of the ADMM to come, which is charged as what it is, a release without protection."""

    request = PublishedStart

    def run(self, desk: Desk, request: PublishedStart) -> Done:
        """Put the worker with noise in the place of the exact one."""

        def noisy(problem: Subproblem, start: AdmmStart, desk: Desk) -> PublishedWorker:
            return PublishedWorker(problem, start, request, desk.noise())

        desk.training.make_worker = noisy
        return Done()
