"""The party's side of what every conversation has."""

import json
import math

from sottovoce.privacy.events import event_from_dict
from sottovoce.vertical.protocol import Desk, Handler, PartyFacts, RefusalError, Training, Uncharged
from sottovoce.vertical.protocols.general.messages import Afford, Close, Describe, Description, Equipped, Keep, Prepare
from sottovoce.vertical.wire import Done

__all__ = ["AffordHandler", "CloseHandler", "DescribeHandler", "KeepHandler", "PrepareHandler"]


class DescribeHandler(Uncharged[Describe]):
    """Public facts."""

    request = Describe
    changes = False

    def run(self, desk: Desk, request: Describe) -> Description | Equipped:
        facts = desk.facts
        norm, bound = (math.inf if each is None else each for each in (facts.data_norm, facts.data_bound))
        others = max(0, facts.whole_rows - facts.n_rows)
        told = Description(facts.n_rows, facts.n_features, norm, int(facts.nonnegative), bound, others)
        return Equipped(**vars(told), engines=json.dumps(facts.engines, sort_keys=True)) if request.engines else told


class AffordHandler(Uncharged[Afford]):
    """Whether the budget covers an event; nothing is spent."""

    request = Afford
    changes = False

    def run(self, desk: Desk, request: Afford) -> Done:
        try:
            event = event_from_dict(json.loads(request.event))
        except (ValueError, RecursionError):
            raise RefusalError("what it was asked to afford is not an event") from None
        shortage = desk.shortage(event)
        if shortage:
            raise RefusalError(shortage)
        return Done()


class PrepareHandler(Handler[Prepare]):
    """Open a training."""

    request = Prepare

    def plan(self, facts: PartyFacts, training: Training, request: Prepare) -> None:
        if not request.l2 >= 0.0:
            raise RefusalError("a penalty needs l2 >= 0")

    def run(self, desk: Desk, request: Prepare) -> Done:
        desk.training = Training(request.l2, bool(request.intercept))
        return Done()


class KeepHandler(Uncharged[Keep]):
    """Keep the present coefficients, which do not leave the party."""

    request = Keep

    def run(self, desk: Desk, request: Keep) -> Done:
        worker = desk.training.worker
        x = getattr(worker, "x", None)
        if x is None:
            raise RefusalError("there is no training whose coefficients could be kept")
        intercept = float(x[-1]) if desk.training.intercept else 0.0
        released = getattr(worker, "released", False)
        desk.keep(request.model, x[: desk.facts.n_features].copy(), intercept, released=released)
        return Done()


class CloseHandler(Uncharged[Close]):
    """The end of a session."""

    request = Close

    def run(self, desk: Desk, request: Close) -> Done:
        desk.ended = True
        return Done()
