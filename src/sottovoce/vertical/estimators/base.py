"""What the vertical estimators share: parameters, the plan, the fit, what is told to the ledger and in receipts."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from sottovoce._numerics import Vector
from sottovoce._parameters import Budgeted, attribute, estimator, parameter
from sottovoce._plain_data import encode
from sottovoce._shown import quoted
from sottovoce._validation import privacy_budget, refuse_large_delta, warn_of_large_delta, whole_number
from sottovoce._warnings import warn_caller
from sottovoce._whole_fit import whole_fit
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.ledger.charging import charging, is_charged
from sottovoce.ledger.ledger import Charge
from sottovoce.losses import SmoothLoss
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import Event, outline
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.privacy.receipts import digest_of_parts, make_receipt
from sottovoce.randomness import Streams
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import (
    History,
    PublicFacts,
    VerticalPlan,
    VerticalSolution,
    helpers_among,
    read_public_facts,
)
from sottovoce.vertical.estimators.choices import told_engines
from sottovoce.vertical.estimators.prediction import (
    Predicting,
    as_parties,
    check_length,
    kept_parts,
    label_holder,
    labels_of,
    own_labels,
    seeded_for_session,
)
from sottovoce.vertical.protocol import Part
from sottovoce.vertical.requests.general import Description

_DESCRIBED: Final = ("n_rows", "n_features", "data_norm", "nonnegative", "data_bound")  # that plans are made from
NOT_COVERED: Final = (
    "timing, memory and other side channels of the machines that train, the network between them, and whether the "
    "training failed",
    "parties or a coordinator who do not follow the protocol, beyond what the proof says of them",
    "who takes part, how many people are aligned, and their identifiers",
    "ledgers that parties keep at home: whether one was charged is in it, and in no receipt",
    "rows of the same person beyond one",
    "choosing parameters or data by looking at earlier results: each fit on the same people adds up",
    "how exactly floating-point Gaussians follow their law, where any are drawn",
)


@estimator
class VerticalEstimator(Predicting, Budgeted):
    """Base of the vertical estimators; constructor parameters are public facts and are never written by `fit`."""

    epsilon: float | None = parameter(
        "float, > 0",
        default=None,
        text="Privacy budget for one person's rows at all parties together; ``inf`` trains without noise.",
    )
    labels_public: bool = parameter(
        "bool", default=False, text="The labels are not secret; the statement does not cover them then."
    )
    label_holder: str | None = parameter(
        "str or None",
        default=None,
        text="Party that holds the labels. None takes the one made with ``y=...``, else the first.",
    )
    fit_intercept: bool = parameter(
        "bool",
        default=True,
        text="A free intercept, which the label holder keeps.",
    )
    max_iter: int = parameter("int", default=200, text="Steps at most, without noise.")
    random_state: Any = parameter(
        "None, int or numpy generator",
        default=None,
        text="""None is the private choice. A seed makes a run within one process repeatable, and not private.""",
    )
    ledger: Any = parameter(
        "None, str or Ledger",
        default=None,
        text="""The label holder's privacy budget on disk, which `fit` charges before anything is sent
        (`sottovoce.Ledger`, or its address). Its data set must have the adjacency ``"replace-one"``: one person's rows
        at all parties.""",
    )

    guarantee_: Guarantee = attribute("Guarantee", "The receipt for one person's rows at all parties.")
    party_guarantees_: dict[str, Guarantee] = attribute(
        "dict", "For each party, what it gives away by itself; its receipt says about what of a person."
    )
    parts_: dict[str, Part] = attribute(
        "dict", "Each party's `Part` of the model, where the parties live in this process."
    )
    history_: History | None = attribute("History or None", "Objective and stopping measure by step, without noise.")
    n_rounds_: int = attribute("int", "Rounds of messages.")
    uplink_bytes_: int = attribute("int", "Bytes of all messages to the coordinator in `fit`.")
    downlink_bytes_: int = attribute("int", "Bytes of all messages to the parties in `fit`.")
    plan_: VerticalPlan = attribute("VerticalPlan", "The frozen plan.")
    charge_: Charge | None = attribute("Charge or None", "Entry of the ledger about this fit.")

    @abstractmethod
    def _make_loss(self) -> SmoothLoss: ...

    def _label_bounds(self) -> tuple[float, float] | None:
        return None

    @abstractmethod
    def _targets(self, y: NDArray[Any]) -> tuple[Vector, dict[str, Any]]:
        """Return the labels as the solvers take them, and the attributes that turn scores into predictions."""

    @abstractmethod
    def _own_facts(self, n_samples: int) -> dict[str, Any]: ...

    @abstractmethod
    def _make_plan(self, **facts: Any) -> VerticalPlan: ...

    def plan(self, parties: Any) -> VerticalPlan:
        """Return the frozen plan for these parties; it reads their public facts and nothing else.

        Parameters
        ----------
        parties : Parties or sequence of Party

        Returns
        -------
        VerticalPlan

        Raises
        ------
        ParameterError
            If a parameter is missing, out of range or does not fit another one.
        DataError
            If the parties do not hold the same number of rows.
        """
        parties = as_parties(parties)
        with parties.session() as session:  # the object's own may have ended where others came
            plan = self._plan(session, label_holder(self.label_holder, parties))
        if plan.is_private:
            warn_of_large_delta(plan.delta, plan.facts.n_samples)
        return plan

    def _plan(self, parties: Parties, holder: str) -> VerticalPlan:
        epsilon, _ = privacy_budget(self.epsilon, self.delta)
        self._check_parameters()
        told = read_public_facts(parties, engines=self._asks_engines(epsilon))
        plan = self._plan_for(told, self._engines(parties, told, epsilon), holder)
        if plan.facts.helpers and not plan.uses_helpers:
            parties.leave_out(plan.facts.helpers)
        return plan

    def _plan_for(
        self, everybody: Mapping[str, Description], engines: Mapping[str, Mapping[str, str]], holder: str
    ) -> VerticalPlan:
        """Return the plan for parties that describe themselves so."""
        epsilon, delta = privacy_budget(self.epsilon, self.delta)
        helpers = helpers_among(everybody)
        descriptions = {name: facts for name, facts in everybody.items() if name not in helpers}
        if holder in helpers:
            raise ParameterError(
                f"party {holder!r} is a helper, without a table, and cannot hold the labels: name who does with "
                "label_holder=..."
            )
        first, n = next((name, facts.n_rows) for name, facts in descriptions.items())
        for name, description in descriptions.items():
            if description.n_rows != n:
                raise DataError(
                    f"party {name!r} holds {description.n_rows} rows and {first!r} holds {n}: align them first, with "
                    "sottovoce.vertical.align."
                )
        refuse_large_delta(delta if math.isfinite(epsilon) else 0.0, n, self.accept_delta)
        return self._make_plan(
            **self._own_facts(n),
            facts=PublicFacts(
                n_samples=n, descriptions=descriptions, label_holder=holder, label_bounds=self._label_bounds(),
                helpers=helpers, engines=engines,
            ),
            loss=self._make_loss(),
            fit_intercept=bool(self.fit_intercept),
            epsilon=epsilon,
            delta=delta,
            labels_public=bool(self.labels_public),
        )  # fmt: skip

    def _engines(self, parties: Parties, told: Mapping[str, Description], epsilon: float) -> dict[str, dict[str, str]]:
        """Return the engines of secure computation that each party may use, where they matter."""
        return told_engines(parties, told) if self._asks_engines(epsilon) else {}

    def _asks_engines(self, epsilon: float) -> bool:
        """Tell whether parties are asked for their engines; a subclass that computes jointly does."""
        return False

    def _check_parameters(self) -> None:
        """Refuse what is wrong whoever the parties are; a subclass refuses more."""
        for name in ("labels_public", "fit_intercept"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise ParameterError(f"{name} must be True or False; got {getattr(self, name)!r}.")
        whole_number("max_iter", self.max_iter, at_least=1)

    @whole_fit
    def fit(self, parties: Any, y: ArrayLike | None = None) -> Self:
        """Train over the parties' columns.

        Parameters
        ----------
        parties : Parties or sequence of Party
            Aligned: row i is the same person everywhere.
        y : array-like of shape (n_rows,) or None
            Labels, in the common order of the rows. None takes those of the party that was made with ``y=...``.

        Returns
        -------
        self

        Raises
        ------
        ParameterError, DataError
            Before anything is released.
        PartyError
            If a party refuses, because of its own budget for example, or fails.
        """
        parties = as_parties(parties)
        with parties.session() as session:
            self._fit(parties, session, y)
            # without the farewell, which is not a part of the training; the counters of ``parties`` have it
            self.uplink_bytes_, self.downlink_bytes_ = session.uplink_bytes, session.downlink_bytes
        return self

    def _fit(self, parties: Parties, session: Parties, y: ArrayLike | None) -> None:
        holder = label_holder(self.label_holder, parties)
        streams = Streams(self.random_state)
        is_charged(self.ledger, self.dataset)
        own = own_labels(parties, holder, y)
        plan = self._plan(session, holder)
        check_length(own if y is None else y, plan.facts.n_samples)
        if plan.is_private:
            warn_of_large_delta(plan.delta, plan.facts.n_samples)
        run = parties.new_run().of((type(self).__name__, plan), own if y is None else y)
        model, session.run = run.model, run
        plan.meet(session)
        with seeded_for_session(parties, streams, session.session_name) as seeded, charging(
            self.ledger, self.dataset, plan.event, delta=plan.delta, adjacency=Adjacency.REPLACE_ONE, seeded=seeded,
            plan=self._public_summary(plan), run=run.charge,
        ) as charge:  # fmt: skip
            charge.looking()
            session.run = replace(run, open_charge=charge)
            targets, learnt = self._targets(labels_of(parties, holder, y))
            solution = plan.solve(session, targets, model, streams)
            charge.commit(solution.event)
        self.charge_ = charge.charge
        for name, value in learnt.items():
            setattr(self, name, value)
        self._take(plan, solution, model)
        self.parts_, self.local_part_ = kept_parts(parties, model, holder)
        self.guarantee_ = self._receipt(plan, solution, solution.event, plan.promised_epsilon, seeded, None)
        self.party_guarantees_ = {
            name: self._receipt(plan, solution, event, None, seeded, name) for name, event in plan.party_events.items()
        }

    def _take(self, plan: VerticalPlan, solution: VerticalSolution, model: str) -> None:
        self.plan_ = plan
        self.scorer_ = solution.scorer
        self.model_ = model
        self.history_ = solution.history
        self.n_rounds_ = solution.n_rounds
        if math.isinf(plan.epsilon) and self.history_ is not None and not self.history_.converged:
            warn_caller(
                f"no convergence in max_iter={self.max_iter} steps, of which {self.history_.n_steps} were taken: raise "
                "max_iter, or scale the columns, or raise alpha or tol.",
                ConvergenceWarning,
            )

    # ------------------------------------------------------------------ what is told

    def _public_summary(self, plan: VerticalPlan) -> dict[str, object]:
        return {
            **self._told(plan),
            "n_samples": plan.facts.n_samples,
            "parties": {name: facts.n_features for name, facts in plan.facts.descriptions.items()},
            "epsilon": plan.epsilon,
            "delta": plan.delta,
            **plan.words.details,
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
        # one part that is exact, or an exact mean of labels, is confirmed by a digest to whoever can guess a row
        tied = solution.weights is not None or not private
        words, unit, parts = plan.words, plan.unit, getattr(self, "parts_", {})
        if party is not None:
            what = words.of_holder if party == plan.facts.label_holder else "row of its columns"
            unit = f"one person's {what} at {quoted(party)}, replaced by any other, for what {quoted(party)} gives away"
            parts = {name: part for name, part in parts.items() if name == party}
        return make_receipt(
            epsilon=accountant_for(event).epsilon(event, plan.delta) if epsilon is None else epsilon,
            delta=plan.delta,
            adjacency=Adjacency.REPLACE_ONE,
            unit=unit,
            mechanism=words.mechanism,
            releases=words.releases,
            event=event,
            assumptions=(
                f"n_samples = {plan.facts.n_samples} and who the aligned people are",
                *(
                    f"{quoted(name)}: n_features = {facts.n_features}"
                    for name, facts in plan.facts.descriptions.items()
                ),
                "all constructor parameters, chosen without looking at the data",
                *self._assumptions(),
                *words.assumptions,
            ),
            not_covered=(*words.not_covered, *NOT_COVERED) if private else words.not_covered,
            parameters={
                **self._told(plan),
                "parties": list(plan.facts.names),
                **words.details,
                **solution.chosen,
                **({} if party is None else {"party": party}),
                **self._public_facts(plan),
            },
            seeded=seeded,
            private=private,
            proof=plan.proof,
            charge=getattr(self, "charge_", None) if party in (None, plan.facts.label_holder) else None,
            model=digest_of_parts(parts, solution.scorer if party is None else None) if tied else None,
        )

    def _assumptions(self) -> tuple[str, ...]:
        return ()

    def _public_facts(self, plan: VerticalPlan) -> dict[str, Any]:
        """Return what the plan can be made from again."""
        facts, computing = plan.facts, dict[str, Any]()
        if facts.helpers or facts.engines:  # where anybody asked
            engines = {name: dict(each) for name, each in facts.engines.items()}
            computing = {"computing": {"helpers": list(facts.helpers), "engines": engines}}
        described = {
            name: {field: encode(getattr(each, field)) for field in _DESCRIBED}
            for name, each in facts.descriptions.items()
        }
        classes = getattr(self, "classes_", None)
        return {
            "described": described,
            **computing,
            **({} if classes is None else {"classes": [str(name) for name in classes]}),
            "arguments": {
                name: encode(value)
                for name, value in self.get_params(deep=False).items()
                if name not in ("random_state", "ledger", "dataset")
            },
        }
