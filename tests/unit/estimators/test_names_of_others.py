"""A parameter that scikit-learn's linear models have and these have not is answered with what to give instead."""

import inspect

import pytest
from sklearn import linear_model, svm

import sottovoce as sv
from sottovoce.exceptions import ParameterError

OURS = [sv.DPLogisticRegression, sv.DPLinearSVC, sv.DPRidge, sv.DPLasso, sv.DPSparseLogisticRegression]
THEIRS = [
    linear_model.LogisticRegression, linear_model.Ridge, linear_model.Lasso, linear_model.ElasticNet,
    linear_model.SGDClassifier, svm.LinearSVC,
]  # fmt: skip
NAMES = sorted({name for kind in THEIRS for name in inspect.signature(kind).parameters})


@pytest.mark.parametrize("kind", OURS)
def test_every_name_of_theirs_is_taken_or_answered(kind):
    own = inspect.signature(kind).parameters
    answered = 0
    for name in [one for one in NAMES if one not in own]:
        with pytest.raises(TypeError, match=rf"{kind.__name__} takes no '{name}'\."):
            kind(**{name: 1.0})
        words = kind.instead_of(name, own)
        answered += bool(words)
        if name in ("C", "penalty", "l1_ratio"):
            assert ("radius" in words) == ("radius" in own) or "alpha" in words
    assert answered > len(NAMES) // 3


@pytest.mark.parametrize("kind", OURS)
def test_set_params_answers_in_the_same_way(kind):
    model = kind(epsilon=1.0)
    with pytest.raises(ParameterError, match=r"takes no 'C'\. Give (alpha|radius)"):
        model.set_params(C=1.0)
    with pytest.raises(ValueError, match="Invalid parameter 'nothing'"):
        model.set_params(nothing=1.0)
    assert model.set_params(epsilon=2.0) is model and model.epsilon == 2.0


@pytest.mark.parametrize("kind", [sv.DPPipeline, sv.DPScaler, sv.DPSearchCV])
@pytest.mark.parametrize("name", ["C", "penalty", "n_jobs"])
def test_what_is_around_a_model_sends_there(kind, name):
    with pytest.raises(TypeError, match=rf"{kind.__name__} takes no '{name}'\. It belongs to the model\."):
        kind(**{name: 1.0})


def test_a_near_name_is_guessed():
    with pytest.raises(TypeError, match=r"takes no 'epsilom'\. Did you mean 'epsilon'"):
        sv.DPRidge(epsilom=1.0)
