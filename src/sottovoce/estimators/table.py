"""What estimators of one table share: which tables are neighbours, the public number of rows, whose rows they are."""

from typing import Any

from sottovoce._parameters import estimator, parameter
from sottovoce._validation import whole_number
from sottovoce.estimators.base import PlanT, PrivateEstimator
from sottovoce.estimators.reading import UnreadTable, refuse_shape, refuse_unsorted
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.unit import checked_max_rows, unit_of

__all__ = ["DPTableEstimator"]


@estimator
class DPTableEstimator(PrivateEstimator[PlanT]):
    """Base of models, scaler and pipeline: adjacency, public size and unit."""

    adjacency: str = parameter(
        '{"zero-out", "add-remove", "replace-one"}',
        default="zero-out",
        text="Which tables are neighbours; see `sottovoce.privacy.adjacency.Adjacency`.",
    )
    n_public: int | None = parameter(
        "int or None",
        default=None,
        text='Public stand-in for the number of rows; required for ``"add-remove"``, where n is secret.',
    )
    max_rows_per_group: int | None = parameter(
        "int or None",
        default=None,
        text="""Public number of rows that are used of one person, needed where `fit` is given ``groups``: the guarantee
        is then for a person with all their rows. Of those who have more, so many are drawn at random. Small is less
        noise, large uses more of the rows.""",
    )

    def neighbours(self, n_samples: int, *, private: bool) -> tuple[Adjacency, int]:
        """Return the adjacency and the public number of rows, checked."""
        adjacency = Adjacency.parse(self.adjacency)
        if adjacency is Adjacency.ADD_REMOVE and self.n_public is None and private:
            raise ParameterError(
                "n_public is missing: with adjacency='add-remove' the number of rows is secret, so give a public "
                "stand-in for it (an order of magnitude is enough), or use adjacency='zero-out'."
            )
        if self.n_public is not None:
            n_samples = whole_number("n_public", self.n_public, at_least=1, at_most=2**53)
        return adjacency, int(n_samples)

    def unit(self) -> str:
        """Return whom the guarantee speaks of, in words: one row, or one person."""
        return unit_of(self.max_rows_per_group)

    def check_groups(self, X: Any, groups: Any) -> None:
        """Refuse, from public facts, groups that are missing, too many, or that a table cannot be put in order by."""
        given = groups is not None or (isinstance(X, UnreadTable) and X.groups is not None)
        if not given and self.max_rows_per_group is None:
            return
        if self.max_rows_per_group is None:
            raise ParameterError(
                "max_rows_per_group is missing: with groups, noise is made for a person with the most rows that are "
                "used of one. Give that public number; of those who have more, so many are drawn at random."
            )
        checked_max_rows(self.max_rows_per_group)
        if not given:
            raise ParameterError(
                f"groups is missing: max_rows_per_group={self.max_rows_per_group!r} asks for a guarantee for persons. "
                "Give fit the person of each row, groups=..., or leave max_rows_per_group None where each person has "
                "one row."
            )
        refuse_unsorted(X)
        if groups is not None:
            refuse_shape("groups", X, groups)

    def group_assumptions(self) -> tuple[str, ...]:
        """Return what a receipt says of persons and their rows."""
        most = self.max_rows_per_group
        if most is None:
            return ()
        return (
            f"max_rows_per_group = {most} (of persons with more rows so many were drawn at random; rows without a "
            "person were left out)",
            "groups: rows of one person have one name there, and no two persons share one",
        )

    def public_sizes(self, n_samples: int, n_features: int) -> str:
        """Return what a receipt says of the public size of the table."""
        given = "n_public" if self.n_public is not None else "n_samples"
        return f"{given} = {n_samples}, n_features = {n_features} and their names"
