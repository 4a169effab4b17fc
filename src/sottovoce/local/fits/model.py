"""LocalModel: a linear model from reports, with its receipt and what held-out reports say of it."""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce._files import named_errors, write_whole
from sottovoce._plain_data import parsed
from sottovoce.exceptions import DataError, ModelFormatError, ParameterError
from sottovoce.local.fits.held_out import HeldOut, Quality
from sottovoce.local.protocol import Protocol, row_sums
from sottovoce.privacy.guarantee import Guarantee

Array = NDArray[np.float64]

_FORMAT: Final = "sottovoce-local-model"
_VERSION: Final = 1


@dataclass(frozen=True, eq=False, repr=False)
class LocalModel:
    r"""A linear model of what `Protocol.encode` makes of a record.

    Attributes
    ----------
    protocol : Protocol
        Says how a record is encoded, and what the labels are.
    weights : ndarray of shape (d,)
        One number for each coordinate of the encoded unit vector; their product is the score.
    loss : str
        What was minimised: ``"least squares"``, or what an earlier version wrote.
    degree : int
        Degree of the gradient: 0 used the first moment only.
    n_reports : int
    guarantee_ : Guarantee
    quality_ : Quality or None
        What held-out reports say; None if the reports were in one fold.

    Notes
    -----
    In the columns of a record, as `Protocol.row` gives them, the score is ``row @ coef_ + intercept_`` for rows that
    are not longer than the protocol's scale, where the completion is "slack". Where it is "normalise", this is divided
    by the norm of (row / scale, intercept), which changes no sign. For a regression ``coef_`` and ``intercept_`` are in
    the unit of the label, and ``label_offset_`` is added to the score.
    """

    protocol: Protocol
    weights: Array
    loss: str
    degree: int
    n_reports: int
    guarantee_: Guarantee
    quality_: Quality | None = None

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights, dtype=np.float64)
        if weights.shape != (self.protocol.d,) or not np.isfinite(weights).all():
            raise ParameterError(f"weights must be {self.protocol.d} finite numbers; got shape {weights.shape}.")
        object.__setattr__(self, "weights", weights)

    @property
    def classes_(self) -> tuple[Any, Any] | None:
        """The two labels of a classification; the second is the positive one."""
        return self.protocol.classes

    @property
    def coef_(self) -> Array:
        """Coefficients of the columns of a record; see the notes."""
        share = math.sqrt(1.0 - self.protocol.intercept**2) if self.protocol.completion == "slack" else 1.0
        return self.weights[: self.protocol.n_columns] * (self._unit * share / self.protocol.scale)

    @property
    def intercept_(self) -> float:
        """The score of a row of zeros, before it is divided; see the notes."""
        if not self.protocol.intercept:
            return 0.0
        return float(self.weights[self.protocol.n_columns]) * self._unit * self.protocol.intercept

    @property
    def label_offset_(self) -> float:
        """Middle of the label bounds of a regression, 0 for a classification."""
        return 0.0 if self.protocol.label_bounds is None else 0.5 * math.fsum(self.protocol.label_bounds)

    @property
    def _unit(self) -> float:
        if self.protocol.label_bounds is None:
            return 1.0
        low, high = self.protocol.label_bounds
        return 0.5 * (high - low)

    def decision_function(self, X: Any) -> Array:
        """Return the score of each record: positive for the second class; the least-squares score estimates E[s | x].

        Parameters
        ----------
        X : array of shape (n, n_features), or sequence of records
            As the protocol has them; see `Protocol.encode_many`.
        """
        return row_sums(self.protocol.encode_many(X) * self.weights)[:, 0]  # a matrix product rounds by a row's place

    def predict(self, X: Any) -> NDArray[Any]:
        """Return a label for each record; numbers are moved into the label bounds."""
        scores = self.decision_function(X)
        if self.protocol.classes is not None:
            return np.asarray(self.protocol.classes)[(scores > 0.0).astype(np.int64)]
        assert self.protocol.label_bounds is not None
        low, high = self.protocol.label_bounds
        return np.clip(self.label_offset_ + self._unit * scores, low, high)

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities (1 - p, p) of the two classes, p = (1 + score)/2 within [0, 1].

        A linear probability model: right on average, rough at the ends.

        Raises
        ------
        ParameterError
            For a regression, and for a constrained fit of an earlier version, whose scores are not probabilities.
        """
        if self.protocol.classes is None or self.loss != "least squares":
            raise ParameterError(
                "probabilities need a classification fitted by least squares; this is a "
                f"{self.protocol.task} fitted by {self.loss}."
            )
        p = np.clip(0.5 * (1.0 + self.decision_function(X)), 0.0, 1.0)
        return np.column_stack([1.0 - p, p])

    def score(self, X: Any, y: Any) -> float:
        """Return the accuracy of a classification, or R^2 of a regression, on records with known labels."""
        found, true = self.predict(X), np.asarray(y)
        if true.shape != found.shape:
            raise DataError(f"y must hold one label for each of the {len(found)} records; got shape {true.shape}.")
        if self.protocol.classes is not None:
            signs = np.array([self.protocol.sign_of_class(label) for label in true])
            return float(np.mean((self.decision_function(X) > 0.0) == (signs > 0.0)))
        spread = float(np.sum((true - true.mean()) ** 2))
        if not spread > 0.0:
            raise DataError("y must hold at least two different finite numbers for R^2.")
        return 1.0 - float(np.sum((true - found) ** 2)) / spread

    def to_json(self) -> str:
        """Return the model as the text of a JSON file: plain data, nothing to execute."""
        content = {
            "format": _FORMAT,
            "version": _VERSION,
            "protocol": self.protocol.to_json(),
            "weights": self.weights.tolist(),
            "loss": self.loss,
            "degree": self.degree,
            "n_reports": self.n_reports,
            "quality": _no_nan(None if self.quality_ is None else asdict(self.quality_)),
            "guarantee": self.guarantee_.to_dict(),
        }
        return json.dumps(content, indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote.

        Raises
        ------
        ModelFormatError
            If the text is no such model, or of a later version.
        """
        try:
            content = parsed(text)
            if not isinstance(content, dict) or content.get("format") != _FORMAT:
                raise ValueError(f"its 'format' is not {_FORMAT!r}")
            if content.get("version") != _VERSION:
                raise ValueError(
                    f"it has version {content.get('version')!r}, this version of sottovoce reads {_VERSION}: "
                    "update sottovoce"
                )
            return cls(
                protocol=Protocol.from_json(content["protocol"]),
                weights=np.array(content["weights"], dtype=np.float64),
                loss=str(content["loss"]),
                degree=int(content["degree"]),
                n_reports=int(content["n_reports"]),
                guarantee_=Guarantee.from_dict(content["guarantee"]),
                quality_=_quality(content["quality"]),
            )
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
            raise ModelFormatError(f"this is no local model: {error}") from None

    def save(self, path: str | Path) -> None:
        """Write the model to a JSON file, whole or not at all."""
        write_whole(path, self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that `save` wrote.

        Raises
        ------
        ModelFormatError
            If it cannot be read; the message names the file.
        """
        with named_errors(path, "model", ModelFormatError):
            return cls.from_json(Path(path).read_text(encoding="utf-8"))

    def __repr__(self) -> str:
        return f"<LocalModel: {self.protocol.task} by {self.loss}, degree {self.degree}, {self.n_reports} reports>"


def _no_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _no_nan(item) for key, item in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value


def _quality(content: Any) -> Quality | None:
    if content is None:
        return None
    normal = content["accuracy_if_normal"]
    return Quality(
        squared_error=HeldOut(**content["squared_error"]),
        accuracy_if_normal=math.nan if normal is None else float(normal),
    )
