"""scikit-learn's own checks on every estimator, with and without noise.

Exceptions: none. `check_array_api_input` skips itself where SCIPY_ARRAY_API is not set. The private estimators are
checked at epsilon = 1e4 (the lasso, whose labels fill a thousandth of their bounds, at 1e6), because some checks ask
for 0.83 accuracy on a few dozen rows, which no privacy at a sensible epsilon can give; a seed is set because others ask
that two fits agree.
"""

import math

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import sottovoce as sv

RIDGE = {"delta": 1e-3, "data_norm": 5.0, "label_bounds": (-1e3, 1e3)}
CLASSIFIER = {"delta": 1e-3, "data_norm": 5.0}
LASSO = {"delta": 1e-3, "data_bound": 5.0, "radius": 100.0, "label_bounds": (-1e3, 1e3), "tol": 1e-4, "max_iter": 300}
SPARSE = {"delta": 1e-3, "data_bound": 5.0, "radius": 5.0, "tol": 1e-4, "max_iter": 300}


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        make(epsilon=epsilon, random_state=0, **public)
        for epsilon in (math.inf, 1e4)
        for make, public in (
            (sv.DPRidge, RIDGE),
            (sv.DPLogisticRegression, CLASSIFIER),
            (sv.DPLinearSVC, CLASSIFIER),
            (sv.DPSparseLogisticRegression, SPARSE),
        )
    ]
    + [sv.DPRidge(epsilon=1e4, random_state=0, solver=solver, **RIDGE) for solver in ("adassp", "refinement")]
    + [sv.DPLogisticRegression(epsilon=1e4, random_state=0, solver="newton", **CLASSIFIER)]
    + [sv.DPLasso(epsilon=epsilon, random_state=0, n_steps=300, **LASSO) for epsilon in (math.inf, 1e6)]
    + [
        sv.DPSearchCV(
            make(**public),
            {"alpha": [1e-4, 1e-3]},
            epsilon=1e4,
            delta=1e-3,
            n_iter=1.5,
            validation_size=0.4,
            random_state=0,
        )
        for make, public in (
            (sv.DPRidge, {"data_norm": 5.0, "label_bounds": (-1e3, 1e3)}),
            (sv.DPLogisticRegression, {"data_norm": 5.0}),
        )
    ]
)
def test_check_estimator(estimator, check):
    check(estimator)
