"""scikit-learn's own checks on every estimator, with and without noise.

Exceptions: ``sample_weight`` needs a public bound (``max_sample_weight``), which these checks know nothing of, so they
count for estimators that have one. Even then a row of weight 2 is not two rows, because the penalty is for the mean of
the public number of rows, and weights that are all 0 are not refused, which would be an answer about the data. Newton
steps take no weights. `check_array_api_input` skips itself where SCIPY_ARRAY_API is not set.

The private estimators are checked at epsilon = 1e4 (the lasso, whose labels fill a thousandth of their bounds, at 1e6),
because some checks ask for 0.83 accuracy on a few dozen rows, which no privacy at a sensible epsilon can give. A seed
is set because others ask that two fits agree.
"""

import math

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import has_fit_parameter

import sottovoce as sv

RIDGE = {"delta": 1e-3, "data_norm": 5.0, "label_bounds": (-1e3, 1e3)}
CLASSIFIER = {"delta": 1e-3, "data_norm": 5.0}
LASSO = {"delta": 1e-3, "data_bound": 5.0, "radius": 100.0, "label_bounds": (-1e3, 1e3), "tol": 1e-4, "max_iter": 300}
SPARSE = {"delta": 1e-3, "data_bound": 5.0, "radius": 5.0, "tol": 1e-4, "max_iter": 300}

EQUIVALENCE = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")
NEED_A_BOUND = (
    "check_sample_weights_pandas_series", "check_sample_weights_not_an_array", "check_sample_weights_list",
    "check_sample_weights_shape", "check_sample_weights_not_overwritten", "check_classifiers_one_label_sample_weights",
)  # fmt: skip


def expected_to_fail(estimator):
    if not has_fit_parameter(estimator, "sample_weight"):
        return {}
    model = estimator.steps[-1][1] if isinstance(estimator, sv.DPPipeline) else estimator
    refused = () if model.max_sample_weight is not None else NEED_A_BOUND
    return {
        **({"check_class_weight_classifiers": "no weights"} if model.solver == "newton" else {}),
        **dict.fromkeys(refused, "there is no public bound on the weights"),
        "check_all_zero_sample_weights_error": "a refusal would answer a question about the data",
        **dict.fromkeys(EQUIVALENCE, "the public number of rows does not grow with the weights"),
    }


WEIGHTED = {"max_sample_weight": 5.0}
MODELS = [
    make(epsilon=epsilon, random_state=0, **public)
    for make, public, epsilon in (
        # each kind once: all solvers and losses of a kind read tables and parameters by the same code; others are slow
        (sv.DPRidge, {**RIDGE, **WEIGHTED}, 1e4),
        (sv.DPLogisticRegression, {**CLASSIFIER, **WEIGHTED}, 1e4),
        (sv.DPSparseLogisticRegression, {**SPARSE, "n_steps": 50}, 1e4),
    )
]
SEARCHES = [
    sv.DPSearchCV(
        make(**public), {"alpha": [1e-4, 1e-3]}, epsilon=1e4, delta=1e-3, n_iter=1.5, validation_size=0.4,
        random_state=0,
    )
    for make, public in (
        (sv.DPRidge, {"data_norm": 5.0, "label_bounds": (-1e3, 1e3)}),
        (sv.DPLogisticRegression, {"data_norm": 5.0}),
    )
]  # fmt: skip
OTHERS = [
    # with those above and below each kind meets noise and none, weights and none, and noise meets both
    sv.DPRidge(epsilon=math.inf, random_state=0, **RIDGE, **WEIGHTED),
    sv.DPLogisticRegression(epsilon=math.inf, random_state=0, **CLASSIFIER),
    sv.DPRidge(epsilon=1e4, random_state=0, solver="adassp", **RIDGE),
    sv.DPRidge(epsilon=1e4, random_state=0, solver="refinement", **RIDGE),
    sv.DPLogisticRegression(epsilon=1e4, random_state=0, solver="newton", **CLASSIFIER),
    *(sv.DPLinearSVC(epsilon=epsilon, random_state=0, **CLASSIFIER) for epsilon in (1e4, math.inf)),
    sv.DPSparseLogisticRegression(epsilon=math.inf, random_state=0, **SPARSE),
    *(sv.DPLasso(epsilon=epsilon, random_state=0, **{**LASSO, "n_steps": 300}) for epsilon in (1e6, math.inf)),
    SEARCHES[1],
]
SCALED = [
    sv.DPScaler(epsilon=1e4, delta=1e-3, random_state=0),
    sv.DPPipeline(
        [("scale", sv.DPScaler()), ("model", sv.DPLogisticRegression())], epsilon=1e4, delta=1e-3, random_state=0
    ),
]


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([*MODELS, SEARCHES[0], *SCALED], expected_failed_checks=expected_to_fail)
def test_check_estimator(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(OTHERS, expected_failed_checks=expected_to_fail)
def test_check_the_other_solvers_and_pairs_of_noise_and_weights(estimator, check):
    check(estimator)
