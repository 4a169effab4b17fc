"""The rounds of a joint private training: who chooses when, who steps, whose column is told to whom.

A party that misses a round is asked the same again later. With a product of balls, parties that are behind get at most
as many passes more as were planned, so that all steps that were charged can be taken; with one ball a round goes to
those who answer.
"""

from typing import TYPE_CHECKING

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.vertical.coordinator.attendance import Attendance, shuffled_groups
from sottovoce.vertical.protocols.frank_wolfe.messages import (
    BallChoice,
    BallSelect,
    BallStart,
    BallStep,
    ShareColumn,
    SharedColumn,
)
from sottovoce.vertical.protocols.frank_wolfe.turns import Turn, Turns
from sottovoce.vertical.wire import Done

if TYPE_CHECKING:
    from sottovoce.vertical.protocols.frank_wolfe.joint import JointBallPlan

__all__ = ["JointRounds"]


class JointRounds:
    """One training.

    Parameters
    ----------
    plan : JointBallPlan
    attendance : Attendance

    Attributes
    ----------
    taken : dict
        By party and column: steps up less steps down.
    columns : dict
        By party and column: what was released of it.
    n_taken : dict
        Steps by party.
    """

    def __init__(self, plan: "JointBallPlan", attendance: Attendance) -> None:
        self._plan, self._attendance = plan, attendance
        names = plan.facts.names
        self.taken: dict[tuple[str, int], int] = {}
        self.columns: dict[tuple[str, int], Vector] = {}
        self.n_taken = dict.fromkeys(names, 0)
        self._begun = dict.fromkeys(names, 0)
        self._told = {name: np.zeros(plan.facts.n_samples) for name in names}  # by released columns of each party
        self._choices: dict[str, BallChoice] = {}
        self._winners: tuple[str, ...] = ()
        self._turns = Turns(attendance, self._meet)

    def run(self, starts: dict[str, BallStart]) -> None:
        """Open the steps at all parties, and take them."""
        plan, attendance = self._plan, self._attendance
        for name, start in starts.items():
            self._turns.begin(name, self._opening(start))
        self._turns.run(plan.facts.names)
        passes = shuffled_groups(plan.facts.names, plan.parties_at_once, plan.parties_seed)
        n_more = plan.n_steps if attendance.skips and not plan.is_global else 0
        for number in range(plan.n_steps + n_more):
            for group in next(passes):
                able = [name for name in group if self._can_step(name)]
                if number < plan.n_steps or able:
                    attendance.round += 1
                    self._round(able)

    def _can_step(self, name: str) -> bool:
        if name in self._attendance.gone:
            return False
        return self._turns.is_open(name) or self._begun[name] < self._plan.n_steps

    def lacking(self) -> dict[str, int]:
        """Return how many planned steps a party has not taken, where there are any that it was to take."""
        if self._plan.is_global:
            return {}
        return {name: self._plan.n_steps - n for name, n in self.n_taken.items() if n < self._plan.n_steps}

    def can_be_asked(self) -> list[str]:
        """Return the parties that owe no answer."""
        names = self._plan.facts.names
        return [name for name in names if name not in self._attendance.gone and not self._turns.is_open(name)]

    def _round(self, names: list[str]) -> None:
        everybody = np.sum(list(self._told.values()), axis=0)
        self._choices, self._winners = {}, ()
        for name in names:
            if not self._turns.is_open(name):
                self._begun[name] += 1
                self._turns.begin(name, self._turn(name, everybody, self._begun[name]))
        self._turns.run(names)

    def _opening(self, start: BallStart) -> Turn:
        yield start, Done

    def _turn(self, name: str, everybody: Vector, number: int) -> Turn:
        plan = self._plan
        choice = yield BallSelect(everybody - self._told[name]), BallChoice
        column, sign = plan.checked_place(name, choice.place)
        self._choices[name] = choice
        yield None
        if name not in self._winners:
            return
        yield BallStep(choice.place), Done
        key = name, column
        self.taken[key] = self.taken.get(key, 0) + sign
        self.n_taken[name] += 1
        # nobody would use a column of the last round; of one ball, the rounds are everybody's
        if (self._attendance.round if plan.is_global else number) >= plan.n_steps:
            return
        if key not in self.columns:
            if plan.is_intercept(name, column):
                self.columns[key] = np.ones(plan.facts.n_samples)  # public
            else:
                self.columns[key] = plan.read_column(name, (yield ShareColumn(column), SharedColumn))
        self._told[name] += sign * plan.ball(name) / plan.n_steps * self.columns[key]

    def _meet(self) -> None:
        self._winners = self._plan.winners(self._choices)
