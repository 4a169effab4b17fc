"""What plans whose sums or choices are computed jointly have in common: how they are conducted, and what receipts say.

First among the bases of a plan. The plan that the parties agree on, word for word, is its `joint`.
"""

from abc import ABC, abstractmethod

from sottovoce._numerics import Vector
from sottovoce.privacy.events import Event
from sottovoce.vertical.coordinator.charges import check_affordable
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import PublicFacts, SumOfScores, VerticalSolution
from sottovoce.vertical.protocols.secure.agreed_plan import AgreedPlan
from sottovoce.vertical.protocols.secure.conduct import conduct, meet, rests_on, view_of_engine

__all__ = ["TrainedTogether"]


class TrainedTogether(ABC):
    """Invite, test the session, compute, keep; every party is charged with the event of the whole."""

    uses_helpers = True

    facts: PublicFacts
    patience: float

    @property
    @abstractmethod
    def joint(self) -> AgreedPlan:
        """What the parties agree on, word for word."""

    @property
    @abstractmethod
    def row_bounds(self) -> tuple[str, ...]:
        """What each party declares of its rows, for the receipt."""

    @property
    @abstractmethod
    def view(self) -> str:
        """Whom the noise holds against, for the receipt."""

    @property
    def event(self) -> Event:
        """The whole training, from the view of the parties that may collude."""
        return self.joint.event

    def meet(self, parties: Parties) -> None:
        """Invite all parties, and let their engines meet and test the session; no data are shared."""
        check_affordable(parties, dict.fromkeys(self.facts.names, self.event))
        meet(parties, self.joint, self.patience)

    def trained(self, parties: Parties, y: Vector, model: str, scorer: SumOfScores) -> VerticalSolution:
        """Begin, take what is opened, and keep the model; the parties have met."""
        joined = conduct(parties, self.joint, y, model, self.patience)
        return VerticalSolution(
            scorer=scorer,
            event=self.event,
            party_events=dict.fromkeys(self.facts.names, self.event),
            n_rounds=joined.n_rounds,
            chosen=joined.chosen,
            weights=joined.weights,
        )

    @property
    def unit(self) -> str:
        """What one neighbouring change is about; labels are secret here even where they need not be."""
        return "one person: their rows at all parties are replaced together, the label included"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Facts taken as public, and what the claim rests on, for the receipt."""
        return (*self.row_bounds, self.view, *rests_on(self.joint, self.facts))

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What the statement leaves open, for the receipt."""
        return (view_of_engine(self.joint),)

    def details(self) -> dict[str, object]:
        """Return the mechanism's own parameters for the receipt."""
        return {**self.joint.details(), "digest of the joint plan": self.joint.digest}
