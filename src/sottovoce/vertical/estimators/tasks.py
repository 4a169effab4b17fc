"""What is told of people: one of two classes, or a number."""

import math
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin, RegressorMixin

from sottovoce._entries import listed, numbers_of, places_in
from sottovoce._numerics import Vector
from sottovoce._parameters import attribute, estimator, parameter
from sottovoce._plain_data import encode
from sottovoce._shown import quoted
from sottovoce._validation import bounds, in_order
from sottovoce.central.data.labels import found_classes
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.losses import Logistic, Loss, SmoothLoss, Squared
from sottovoce.vertical.estimators.base import VerticalEstimator


@estimator
class VerticalClassifier(ClassifierMixin, VerticalEstimator):  # type: ignore[misc]
    """Two classes; the list is public."""

    classes: Any = parameter(
        "[negative, positive] or None",
        default=None,
        text="Public list of the classes; required for a private training unless the labels are public.",
    )
    classes_: NDArray[Any] = attribute("ndarray of shape (2,)")

    def _targets(self, y: NDArray[Any]) -> tuple[Vector, dict[str, Any]]:
        known = self._known_classes(y)
        return _signs(y, known), {"classes_": known}

    def _known_classes(self, y: NDArray[Any]) -> NDArray[Any]:
        if self.classes is None:
            if math.isfinite(self.epsilon or math.inf) and not self.labels_public:
                raise ParameterError(
                    "classes is missing: a private training needs the public list of the two classes, because one that "
                    "is read from y would tell about y. Give classes=[negative, positive], or labels_public=True."
                )
            known = found_classes(y)
        else:
            given = in_order("classes", self.classes, "a list, [negative, positive]")
            try:
                known = listed(given)
            except (TypeError, ValueError):
                raise ParameterError(
                    "there must be two classes, and they must differ: two numbers or two texts, none missing; got "
                    f"{self.classes!r}."
                ) from None
        if known.shape != (2,) or not known[0] != known[1] or any(label != label for label in known):
            raise ParameterError(f"there must be two classes, and they must differ; got {list(known)!r}.")
        return known

    def _assumptions(self) -> tuple[str, ...]:
        return (f"the classes: {', '.join(map(quoted, self.classes_))}",)

    def predict(self, parties: Any) -> NDArray[Any]:
        """Predict the class of each row; see `decision_function`."""
        positive = self.decision_function(parties) > 0.0
        predicted: NDArray[Any] = self.classes_[positive.astype(int)]
        return predicted

    def _weigh(self, scores: NDArray[np.float64], y: NDArray[Any]) -> tuple[Vector, float]:
        from sklearn.linear_model import LogisticRegression

        signs = _signs(y, self.classes_)
        if len(set(signs)) < 2:
            raise DataError("y holds one class only: take people of both.")
        scale = np.abs(scores).max(axis=0, initial=1e-300)
        model = LogisticRegression(C=1.0, max_iter=1000).fit(scores / scale, signs)
        return model.coef_[0] / scale, float(model.intercept_[0])

    @abstractmethod
    def _margin_loss(self, margins: Vector) -> dict[str, float]: ...

    def _measures(self, y: NDArray[Any], scores: Vector) -> dict[str, float]:
        signs = _signs(y, self.classes_)
        accuracy = float(np.mean(np.where(scores > 0.0, 1.0, -1.0) == signs))
        return {"accuracy": accuracy, **self._margin_loss(signs * scores)}

    def score(self, parties: Any, y: Any) -> float:
        """Return the accuracy on the rows of ``parties``."""
        from sklearn.metrics import accuracy_score

        return float(accuracy_score(np.asarray(y), self.predict(parties)))


def _signs(y: NDArray[Any], classes: NDArray[Any]) -> Vector:
    """Return -1 for the first class and +1 for the second; anything else is refused."""
    signs = np.array([-1.0, 1.0, 0.0])[places_in(classes.tolist(), y)]
    bad = np.flatnonzero(signs == 0.0)
    if bad.size:
        raise DataError(
            f"y holds the label {y[bad[:1]].tolist()[0]!r} (row {int(bad[0])}, {bad.size} row(s) in all), which is not "
            f"in classes={classes.tolist()!r}."
        )
    return signs


class VerticalLogisticModel(VerticalClassifier):
    """Scores are logarithms of odds."""

    def _make_loss(self) -> Loss:
        return Logistic()

    def predict_proba(self, parties: Any) -> NDArray[np.float64]:
        """Return the probability of each class, of shape (n_rows, 2); see `decision_function`."""
        positive = expit(self.decision_function(parties))
        return np.column_stack([1.0 - positive, positive])

    def _margin_loss(self, margins: Vector) -> dict[str, float]:
        return {"log loss": float(np.logaddexp(0.0, -margins).mean())}


@estimator
class VerticalRegressor(RegressorMixin, VerticalEstimator):  # type: ignore[misc]
    """Numeric labels within public bounds; squared loss, unless a subclass has others."""

    label_bounds: tuple[float, float] | None = parameter(
        "(low, high) or None",
        default=None,
        text="""Public bounds of the labels; required for a private training. Labels beyond are moved to them.""",
    )

    def _make_loss(self) -> SmoothLoss:
        return Squared()

    def _label_bounds(self) -> tuple[float, float] | None:
        if self.label_bounds is None and not math.isfinite(self.epsilon or math.inf):
            return None
        remedy = "They are public; never compute them from the data."
        return bounds("label_bounds", self.label_bounds, remedy=remedy)

    def _targets(self, y: NDArray[Any]) -> tuple[Vector, dict[str, Any]]:
        numbers = numbers_of(y)
        bad = np.flatnonzero(~np.isfinite(numbers))
        if bad.size:
            raise DataError(f"y must hold finite numbers; row {int(bad[0])} does not ({bad.size} row(s) in all).")
        limits = self._label_bounds()
        return (numbers if limits is None else np.clip(numbers, *limits)), {}

    def _assumptions(self) -> tuple[str, ...]:
        return () if self.label_bounds is None else (f"label_bounds = {tuple(encode(self.label_bounds))}",)

    def predict(self, parties: Any) -> Vector:
        """Predict the label of each row; see `decision_function`."""
        return self.decision_function(parties)

    def _weigh(self, scores: NDArray[np.float64], y: NDArray[Any]) -> tuple[Vector, float]:
        from sklearn.linear_model import LinearRegression

        model = LinearRegression().fit(scores, self._targets(y)[0])
        return model.coef_, float(model.intercept_)

    def score(self, parties: Any, y: Any) -> float:
        """Return the coefficient of determination R^2 on the rows of ``parties``."""
        from sklearn.metrics import r2_score

        return float(r2_score(np.asarray(y, dtype=np.float64), self.predict(parties)))

    def _measures(self, y: NDArray[Any], scores: Vector) -> dict[str, float]:
        from sklearn.metrics import r2_score

        numbers = numbers_of(y)
        return {"mean squared error": float(np.mean((numbers - scores) ** 2)), "R^2": float(r2_score(numbers, scores))}
