"""The scaler: columns moved and divided by a location and a scale that were paid for."""

from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sottovoce._columns import refuse_by_type
from sottovoce._groups import kept_rows, person_codes
from sottovoce._numerics import Vector
from sottovoce._parameters import attribute, estimator, parameter
from sottovoce._plain_data import digest, encode
from sottovoce._validation import in_order, number, truth
from sottovoce._whole_fit import whole_fit
from sottovoce.central.column_scales import ColumnScalesPlan, column_scales
from sottovoce.central.core import drive
from sottovoce.central.data.beside import Remember
from sottovoce.central.data.lengths import measure_rows
from sottovoce.central.data.row_memory import KEPT
from sottovoce.central.data.streamed import OutsideTable, RemoteTable, SteppedTable, StreamedTable, is_sparse
from sottovoce.estimators.base import ADJACENCY, MAX_ROWS, N_PUBLIC, Circumstances, PrivateEstimator, arguments_of
from sottovoce.estimators.plain import cut_columns
from sottovoce.estimators.reading import (
    check_columns,
    holding,
    numbers,
    own_groups,
    read_features,
    refuse_copy_of_map,
)
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.randomness import Purpose, Streams

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

_LARGEST: Final = 2.0**100  # entries are cut here at the latest: a double divided by a small scale might not be one
MECHANISM: Final = "noisy histograms of all columns, in powers of two and then in equal cells around what was found"
RELEASES: Final = ("location_ and scale_ of every column, and the noisy histograms that they were made of",)
PROOF: Final = "docs/privacy/scaler.md"
SCALED_SEARCH: Final = (
    "A DPSearchCV goes behind a scaler with a budget of its own: "
    "make_pipeline(DPScaler(epsilon=..., delta=...), DPSearchCV(...)); the two add up."
)


@estimator
class DPScaler(OneToOneFeatureMixin, TransformerMixin, PrivateEstimator[ColumnScalesPlan]):  # type: ignore[misc]
    r"""Columns moved to 0 and divided by their width, both learned with differential privacy.

    For tables in raw units, whose bounds nobody knows: a few per cent of the budget find out where each column lies,
    to within its own width where the number of rows allows it. What noise hides gets a scale so large that the column
    does no harm. Scaled entries are cut at a public number, so that a code or an outlier does no harm either. In
    `DPPipeline` scaler and model share one budget and one receipt.

    Notes
    -----
    Privacy: Gaussian mechanisms on histograms of all columns at once. Statement and proof: ``docs/privacy/scaler.md``.
    Where the noise of so many columns would hide each of them (a public fact), nothing is released, nothing is spent
    and nothing is scaled; the plan says so.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce import DPScaler
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.normal(1990, 10, 5000), rng.normal(0.002, 0.001, 5000)])
    >>> scaler = DPScaler(epsilon=0.5, delta=1e-6, random_state=0).fit(X)
    >>> Z = scaler.transform(X)
    >>> bool((np.abs(Z.mean(axis=0)) < 1.0).all() and (Z.std(axis=0) > 0.3).all() and (Z.std(axis=0) < 3.0).all())
    True
    """

    bounds: Any = parameter(
        "None or (low, high)",
        default=None,
        text="""Public bounds of the columns: two numbers, or two lists with a number for each column. Values may lie
        outside; locations are looked for inside. None looks from -2^40 to 2^40 (about 1e12).""",
    )
    with_centering: bool = parameter(
        "bool", default=True, text="Move columns to 0. A sparse matrix would not stay one, and needs False."
    )
    cut: float = parameter(
        "float, at least 0.001",
        default=4.0,
        text="""Scaled entries beyond this public number are cut to it, which is free. A column that is mostly one value
        gets a very small scale, and uncut its other entries would be all that a model sees. ``inf`` does not cut.""",
    )

    adjacency: str = ADJACENCY
    n_public: int | None = N_PUBLIC
    max_rows_per_group: int | None = MAX_ROWS

    location_: Vector = attribute("ndarray of shape (n_features,)", "What is subtracted; 0 without centring.")
    scale_: Vector = attribute("ndarray of shape (n_features,)", "What columns are divided by; positive.")
    cut_: float = attribute("float", "Where scaled entries are cut; ``inf`` where no scales were released.")

    def plan_for(self, n_samples: int, n_features: int, n_models: int = 1, *, share: float = 1.0) -> ColumnScalesPlan:
        """Return the frozen plan for public facts; every parameter is checked. ``share`` is that of a pipeline."""
        given = self.public_facts(n_samples, n_features)
        return ColumnScalesPlan(
            share=share, centred=truth("with_centering", self.with_centering), bounds=self._bounds(n_features),
            cut=number("cut", self.cut, at_least=1e-3, infinite=True), **given,
        )  # fmt: skip

    def _bounds(self, n_features: int) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
        if self.bounds is None:
            return None
        wanted = (
            "bounds must be two numbers low < high within +-1e100, or lists of lows and of highs, one number a column"
        )
        try:
            low, high = (np.atleast_1d(np.asarray(one, dtype=np.float64)) for one in in_order("bounds", self.bounds))
            for one in (low, high):
                np.broadcast_to(one, n_features)  # takes no memory; a receipt may name any number of columns
        except (TypeError, ValueError):
            raise ParameterError(f"{wanted} ({n_features}); got {self.bounds!r}.") from None
        if not ((low < high) & (low >= -1e100) & (high <= 1e100) & (high - low >= 1e-100)).all():
            raise ParameterError(f"{wanted}; got {self.bounds!r}. Choose them from public knowledge.")
        return tuple(low.tolist()), tuple(high.tolist())

    def _check_table(self, X: Any, plan: ColumnScalesPlan) -> None:
        if (sp.issparse(X) or getattr(X, "has_sparse_rows", False)) and plan.centred:
            raise ParameterError(
                "with_centering must be False for a sparse matrix, which would not stay one if columns were moved. "
                "Give DPScaler(with_centering=False)."
            )

    def _check_sizes(self, X: Any, y: Any) -> None:
        refuse_copy_of_map(X, row_by_row=True)
        self.check_columns(X)

    @whole_fit
    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Learn location and scale of each column.

        Parameters
        ----------
        X : array, memory map, sparse matrix, data frame, ParquetTable or DaskTable of shape (n_samples, n_features)
            Private.
        y : ignored
        groups : array of shape (n_samples,) or None, default None
            Private. The person of each row: with ``max_rows_per_group`` the guarantee is for a person. Rows without one
            (None, NaN) are not used.

        Returns
        -------
        self

        Raises
        ------
        ParameterError
            Before any work: a parameter is missing, out of range or does not fit another one.
        DataError
            Before any noise is drawn: NaN or infinity in X.
        """
        self.check_groups(X, groups)
        own = own_groups(X)
        with self.running(X, None, bounded=groups is not None or own is not None) as run:
            X, groups = self.read(X), groups if own is None else own()
            persons = None if groups is None else person_codes(groups, X.shape[0])
            plan = run.plan_for(X.shape[0], X.shape[1], 1)
            run.begin(plan)
            self.release(X, plan, run.streams, persons)
            of_run = run.commit(plan.event)
            self.charge_ = of_run.charge
            self.guarantee_ = self.receipt(plan, of_run._replace(model=digest(self.fitted())))
        return self

    def read(self, X: Any) -> Any:
        """Return X as the release takes it, with finite rows; number and names of columns are kept."""
        if isinstance(X, OutsideTable):
            check_columns(self, X, reset=True)
        else:
            X = read_features(self, X)
        with holding(self, X, labelled=False) as holder:
            measure_rows(holder, getattr(self, "feature_names_in_", None))
        return X

    def release(
        self, X: Any, plan: ColumnScalesPlan, streams: Streams, persons: NDArray[np.int64] | None = None
    ) -> None:
        """Release location and scale of columns that were `read`."""
        with holding(self, X, labelled=False) as holder:
            if persons is not None:
                assert plan.max_rows_per_group is not None
                kept = kept_rows(persons, plan.max_rows_per_group, streams.generator(Purpose.PERSONS))
                holder.ask(Remember(KEPT, kept))
            found = drive(lambda: column_scales(plan), holder, streams).result
        self.location_, self.scale_ = map(np.array, found)
        self.cut_ = plan.cut if plan.rounds else np.inf

    def fitted(self) -> dict[str, Any]:
        """Return what `fit` left, as plain data."""
        names = getattr(self, "feature_names_in_", None)
        return {
            "n_features_in_": int(self.n_features_in_),
            "location_": encode(self.location_),
            "scale_": encode(self.scale_),
            "cut_": encode(self.cut_),
            **({} if names is None else {"feature_names_in_": [str(name) for name in names]}),
        }

    def receipt(self, plan: ColumnScalesPlan, run: Circumstances) -> Guarantee:
        """Return the receipt of a release; `sottovoce.report` makes it again from its own parameters, and compares."""
        return run.receipt(
            plan,
            {
                "estimator": type(self).__name__,
                **plan.details(),
                "n_samples": plan.n_samples,
                "n_features": plan.n_features,
            },
            last={"arguments": arguments_of(self)},
            mechanism=MECHANISM,
            releases=RELEASES if plan.rounds else ("nothing: the noise of so many columns would hide each of them",),
            event=plan.event,
            assumptions=(
                self.public_sizes(plan.n_samples, plan.n_features),
                *self.assumptions(),
                *self.group_assumptions(),
                "all constructor parameters, chosen without looking at the data",
            ),
            proof=PROOF,
        )

    def assumptions(self) -> tuple[str, ...]:
        """Return what a receipt says of the bounds that were given."""
        return () if self.bounds is None else (f"bounds = {encode(self.bounds)} (values may lie outside)",)

    def transform(self, X: Any) -> Any:
        """Return ``(X - location_) / scale_``, cut to +-``cut_``, in the precision of X.

        Parameters
        ----------
        X : array, sparse matrix, data frame or ParquetTable of shape (n_samples, n_features)

        Returns
        -------
        ndarray or CSR matrix, or of a ParquetTable a table that is scaled each time that it is read
        """
        if isinstance(X, RemoteTable):
            raise ParameterError("X is a table on a cluster, which a DPScaler scales within a DPPipeline alone.")
        if isinstance(X, StreamedTable):
            check_is_fitted(self, "scale_")
            check_columns(self, X, reset=False)
            return SteppedTable(X, self.scaled)
        return self.scaled(self._checked(X))

    def scaled(self, X: Any) -> Any:
        """Return rows scaled; `transform` checks them before."""
        most = min(self.cut_, _LARGEST)
        with np.errstate(over="ignore"):
            if is_sparse(X):
                cut = np.clip(X.data / self.scale_[X.indices], -most, most).astype(X.dtype, copy=False)
                return sp.csr_array((cut, X.indices, X.indptr), shape=X.shape)
            scaled = (X - self.location_) / self.scale_
        return np.clip(scaled, -most, most).astype(X.dtype, copy=False)

    def inverse_transform(self, X: Any) -> Any:
        """Undo `transform`, but for entries that were cut: those stay where they were cut.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray or CSR matrix
        """
        X = self._checked(X, names=False)
        with np.errstate(over="ignore"):
            if is_sparse(X):
                data = (X.data * self.scale_[X.indices]).astype(X.dtype, copy=False)
                return sp.csr_array((data, X.indices, X.indptr), shape=X.shape)
            return (X * self.scale_ + self.location_).astype(X.dtype, copy=False)

    def _checked(self, X: Any, *, names: bool = True) -> Any:
        check_is_fitted(self, "scale_")
        if not names and hasattr(X, "columns"):
            refuse_by_type(X)
            X = np.asarray(X)
        X = numbers(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        if sp.issparse(X) and self.with_centering:
            raise ParameterError("a sparse matrix cannot be moved; the scaler was made with with_centering=True.")
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self.with_centering
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def to_sklearn(self) -> "Pipeline":
        """Return a fitted pipeline of scikit-learn's `StandardScaler` and `MinMaxScaler`, whose ``clip`` is the cut.

        It takes dense tables only. It carries no receipt: keep ``guarantee_`` with it.
        """
        check_is_fitted(self, "scale_")
        return cut_columns(self, self.location_, self.scale_, min(self.cut_, _LARGEST))
