"""The party's side of training without noise. Whoever asks learns the columns, so no budget covers it."""

import math

import numpy as np
from scipy.linalg import eigvalsh

from sottovoce.privacy.events import Event
from sottovoce.vertical.protocol import Answer, Desk, PartyFacts, RefusalError, Step, Training, Uncharged, Unprotected
from sottovoce.vertical.protocols.exact.admm import AdmmWorker
from sottovoce.vertical.protocols.exact.lbfgs import LbfgsWorker
from sottovoce.vertical.protocols.exact.messages import (
    AdmmReply,
    AdmmStart,
    AdmmStep,
    LbfgsDirection,
    LbfgsGradient,
    LbfgsMove,
    LbfgsProducts,
    LbfgsScores,
    LbfgsStart,
    Spectrum,
    SpectrumReply,
    Structure,
)
from sottovoce.vertical.protocols.exact.subproblem import Subproblem
from sottovoce.vertical.table.penalty import BALLS
from sottovoce.vertical.wire import Done

__all__ = [
    "EXACT",
    "AdmmStartHandler",
    "AdmmStepHandler",
    "LbfgsDirectionHandler",
    "LbfgsGradientHandler",
    "LbfgsMoveHandler",
    "LbfgsStartHandler",
    "SpectrumHandler",
    "StructureHandler",
    "subproblem",
]

EXACT = Answer("exact", "train without noise, and show spectra and slopes: whoever asks learns the columns")


def subproblem(desk: Desk) -> Subproblem:
    """Return the party's problem of the training that is open; it is made once."""
    training = desk.training
    if training.problem is None:
        training.problem = Subproblem(desk.columns(intercept=training.intercept), training.penalty)
    problem: Subproblem = training.problem
    return problem


class SpectrumHandler(Unprotected[Spectrum]):
    """Extreme eigenvalues, for checks of theory."""

    request = Spectrum

    def run(self, desk: Desk, request: Spectrum) -> SpectrumReply:
        values = eigvalsh(desk.columns(intercept=desk.training.intercept).gram())
        return SpectrumReply(float(max(values[0], 0.0)), float(values[-1]))


class StructureHandler(Uncharged[Structure]):
    """Groups and a ball for the training that was just opened; nothing is told."""

    request = Structure

    def plan(self, facts: PartyFacts, training: Training, request: Structure) -> None:
        penalty, groups = training.penalty, request.groups
        if training.worker is not None or training.problem is not None:
            raise RefusalError("Structure comes after Prepare and before the first step")
        if len(groups) and not (
            len(groups) <= facts.n_features
            and bool((groups >= 1.0).all() and (groups == np.floor(groups)).all())
            and float(groups.sum()) == facts.n_features
        ):
            raise RefusalError(f"groups are whole numbers of columns that add up to {facts.n_features}")
        if (
            request.ball not in ("", *BALLS)
            or not request.radius > 0.0
            or (request.ball == "") != (request.radius == math.inf)
        ):
            raise RefusalError("a ball is 'l1' or 'l2' with a finite radius > 0, or '' with an infinite one")
        if (penalty.low, penalty.high) != (-math.inf, math.inf) or (len(groups) and request.ball == "l1"):
            raise RefusalError("bounds go with neither groups nor a ball, and groups not with an l1 ball")

    def run(self, desk: Desk, request: Structure) -> Done:
        groups = tuple(int(size) for size in request.groups)
        penalty = desk.training.penalty._replace(groups=groups, ball=request.ball, radius=request.radius)
        desk.training = Training(penalty, desk.training.intercept)
        return Done()


class AdmmStartHandler(Unprotected[AdmmStart]):
    """ADMM's party."""

    request = AdmmStart

    def plan(self, facts: PartyFacts, training: Training, request: AdmmStart) -> Event:
        if not (request.rho > 0.0 and request.proximal >= 0.0 and 0.0 < request.relaxation < 2.0):
            raise RefusalError("ADMM needs rho > 0, a proximal weight >= 0 and a relaxation in (0, 2)")
        return super().plan(facts, training, request)

    def run(self, desk: Desk, request: AdmmStart) -> Done:
        desk.training.worker = AdmmWorker(subproblem(desk), request)
        return Done()


class AdmmStepHandler(Step[AdmmStep]):
    """One update."""

    request, worker, by_row = AdmmStep, AdmmWorker, "shift"

    def run(self, desk: Desk, request: AdmmStep) -> AdmmReply:
        return desk.training.open(AdmmWorker, request).step(request)


class LbfgsStartHandler(Unprotected[LbfgsStart]):
    """L-BFGS's party."""

    request = LbfgsStart

    def plan(self, facts: PartyFacts, training: Training, request: LbfgsStart) -> Event:
        if not training.penalty.is_quadratic:
            raise RefusalError("L-BFGS needs a quadratic penalty; use ADMM")
        return super().plan(facts, training, request)

    def run(self, desk: Desk, request: LbfgsStart) -> Done:
        desk.training.worker = LbfgsWorker(subproblem(desk), request)
        return Done()


class LbfgsGradientHandler(Step[LbfgsGradient]):
    """A move and the gradient there."""

    request, worker, by_row = LbfgsGradient, LbfgsWorker, "slopes"

    def plan(self, facts: PartyFacts, training: Training, request: LbfgsGradient) -> None:
        super().plan(facts, training, request)
        if len(request.curvature) > 1:
            facts.one_a_row(request, "curvature")

    def run(self, desk: Desk, request: LbfgsGradient) -> LbfgsProducts:
        return desk.training.open(LbfgsWorker, request).gradient(request)


class LbfgsDirectionHandler(Step[LbfgsDirection]):
    """The next direction."""

    request, worker = LbfgsDirection, LbfgsWorker

    def run(self, desk: Desk, request: LbfgsDirection) -> LbfgsScores:
        return desk.training.open(LbfgsWorker, request).direction(request)


class LbfgsMoveHandler(Step[LbfgsMove]):
    """The last step."""

    request, worker = LbfgsMove, LbfgsWorker

    def run(self, desk: Desk, request: LbfgsMove) -> Done:
        return desk.training.open(LbfgsWorker, request).move(request)
