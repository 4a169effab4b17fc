"""What is told of a vertical training: to the ledger before it, in receipts after it."""

import math
from typing import Any, Final

from sklearn.base import BaseEstimator

from sottovoce._plain_data import encode
from sottovoce._shown import quoted
from sottovoce.ledger.ledger import Charge
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import Event, outline
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.privacy.receipts import digest_of_parts, make_receipt
from sottovoce.vertical.coordinator.plan import VerticalPlan, VerticalSolution
from sottovoce.vertical.party.party import Part

__all__ = ["NOT_COVERED", "WithReceipts"]

_DESCRIBED: Final = ("n_rows", "n_features", "data_norm", "nonnegative", "data_bound")  # that plans are made from
NOT_COVERED: Final = (
    "timing, memory and other side channels of the machines that train, the network between them, and whether the "
    "training failed",
    "parties or a coordinator who do not follow the protocol, beyond what the proof says of them",
    "who takes part, how many people are aligned, and their identifiers",
    "rows of the same person beyond one",
    "choosing parameters or data by looking at earlier results: each fit on the same people adds up",
    "how exactly floating-point Gaussians follow their law, where any are drawn",
)


class WithReceipts(BaseEstimator):  # type: ignore[misc]
    """An estimator that states what its training costs."""

    parts_: dict[str, Part]
    charge_: Charge | None

    def _public_summary(self, plan: VerticalPlan) -> dict[str, object]:
        """Return the plan for the ledger: public facts only."""
        return {
            **self._told(plan),
            "n_samples": plan.facts.n_samples,
            "parties": {name: facts.n_features for name, facts in plan.facts.descriptions.items()},
            "epsilon": plan.epsilon,
            "delta": plan.delta,
            **plan.details(),
            "event": outline(plan.event),
        }

    def _told(self, plan: VerticalPlan) -> dict[str, object]:
        return {
            "estimator": type(self).__name__,
            "mechanism": plan.name,
            **({"why this mechanism": plan.why_chosen} if plan.why_chosen else {}),
            "loss": plan.loss.name,
            "alpha": plan.alpha,
            "labels_public": plan.labels_public,
            "label_holder": plan.facts.label_holder,
        }

    def _receipt(
        self,
        plan: VerticalPlan,
        solution: VerticalSolution,
        event: Event,
        epsilon: float | None,
        seeded: bool,
        party: str | None,
    ) -> Guarantee:
        """Return the receipt of the whole, or of what one party gives away."""
        private = plan.is_private and math.isfinite(plan.promised_epsilon)
        unit, parts = plan.unit, getattr(self, "parts_", {})
        if party is not None:
            what = plan.given_away_by_holder if party == plan.facts.label_holder else "row of its columns"
            unit = f"one person's {what} at {quoted(party)}, replaced by any other, for what {quoted(party)} gives away"
            parts = {name: part for name, part in parts.items() if name == party}
        return make_receipt(
            epsilon=accountant_for(event).epsilon(event, plan.delta) if epsilon is None else epsilon,
            delta=plan.delta,
            adjacency=Adjacency.REPLACE_ONE,
            unit=unit,
            mechanism=plan.mechanism,
            releases=plan.releases,
            event=event,
            assumptions=(
                f"n_samples = {plan.facts.n_samples} and who the aligned people are",
                *(
                    f"{quoted(name)}: n_features = {facts.n_features}"
                    for name, facts in plan.facts.descriptions.items()
                ),
                "all constructor parameters, chosen without looking at the data",
                *self._assumptions(),
                *plan.assumptions,
            ),
            not_covered=(*plan.not_covered, *NOT_COVERED) if private else plan.not_covered,
            parameters={
                **self._told(plan),
                "parties": list(plan.facts.names),
                **plan.details(),
                **solution.chosen,
                **({} if party is None else {"party": party}),
                **self._public_facts(plan),
            },
            seeded=seeded,
            private=private,
            proof=plan.proof,
            charge=getattr(self, "charge_", None),
            model=digest_of_parts(parts, solution.scorer if party is None else None),
        )

    def _assumptions(self) -> tuple[str, ...]:
        """Return what is taken as public beyond the constructor parameters."""
        return ()

    @staticmethod
    def _computing(plan: VerticalPlan) -> dict[str, Any]:
        """Return who helps, and what each party said that it can compute with, where anybody asked."""
        facts = plan.facts
        if not (facts.helpers or facts.engines):
            return {}
        engines = {name: dict(each) for name, each in facts.engines.items()}
        return {"computing": {"helpers": list(facts.helpers), "engines": engines}}

    def _public_facts(self, plan: VerticalPlan) -> dict[str, Any]:
        """Return what the plan can be made from again."""
        described = {
            name: {field: encode(getattr(facts, field)) for field in _DESCRIBED}
            for name, facts in plan.facts.descriptions.items()
        }
        classes = getattr(self, "classes_", None)
        return {
            "described": described,
            **self._computing(plan),
            **({} if classes is None else {"classes": [str(name) for name in classes]}),
            "arguments": {
                name: encode(plan.name if isinstance(value, type) else value)  # a mechanism that has no name in a list
                for name, value in self.get_params(deep=False).items()
                if name not in ("random_state", "ledger", "dataset")
            },
        }
