"""The frozen plan: public facts in, noise and event out, and the run keeps to it."""

import math

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.exceptions import AccountingError, ParameterError, PrivacyWarning
from sottovoce.papers.dp_scd import Minibatch, Published
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.calibration import gaussian_mu

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 5))
X /= np.linalg.norm(X, axis=1, keepdims=True)
SIGN = np.where(X[:, 0] > 0, 1, -1)


def logistic(**changed):
    return sv.DPLogisticRegression(
        **{"epsilon": 1.0, "delta": 1e-5, "data_norm": 1.0, "classes": [-1, 1], "random_state": 0, **changed}
    )


def test_a_run_that_spends_more_than_its_plan_gets_no_receipt(monkeypatch):
    twice = property(lambda split: 2 * split.whole)
    monkeypatch.setattr("sottovoce.central.split.Split.steps", twice, raising=False)
    with pytest.raises(AccountingError, match=r"more than the epsilon=1\.0 of this receipt"):
        logistic().fit(X, SIGN)


def test_plan_needs_an_estimator_of_ours():
    with pytest.raises(ParameterError, match="estimator must be one of sottovoce's estimators; got int"):
        sv.plan(3, 10, 2)


def test_plan_summary_says_what_is_spent():
    summary = sv.plan(logistic(), 1000, 5).summary()
    assert summary["epsilon"] == 1.0
    assert summary["mu (Gaussian DP) of the whole run"] == pytest.approx(gaussian_mu(1.0, 1e-5))
    assert "noise multiplier" in summary["event"]
    assert "\n" not in summary["event"]
    assert sv.plan(logistic(solver=Minibatch()), 1000, 5).summary()["noise multiplier of a step"] > 0.5


def test_no_noise_says_so():
    receipt = logistic(epsilon=math.inf, alpha=1e-3).fit(X, SIGN).guarantee_
    assert receipt.epsilon == math.inf
    assert receipt.statement().startswith("NOT PRIVATE: this model was trained without noise")
    assert receipt.epsilon_at(1e-5) == math.inf
    assert not receipt.is_private
    assert receipt.not_covered == ("everything: no noise was added",)


PAPER = {"batch_size": 20, "clipping_norm": 0.05, "epochs": 5}


class TestPaper:
    """The published algorithm: its receipt states what holds, not what was claimed."""

    def fit(self, **changed):
        with pytest.warns(PrivacyWarning, match="its claim of epsilon=1 does not hold, the receipt states epsilon="):
            return logistic(solver=Published(**PAPER), **changed).fit(X, SIGN)

    def test_receipt(self):
        model = self.fit()
        plan = sv.plan(model, *X.shape)
        receipt = model.guarantee_
        # every row is in exactly 5 Gaussian mechanisms with the published multiplier
        held = accountant_for(plan.event)
        assert held.mu(plan.event) == pytest.approx(math.sqrt(5) / plan.noise_multiplier)
        assert receipt.epsilon == held.epsilon(plan.event, 1e-5) > 1.5
        assert receipt.parameters["epsilon claimed by the paper's accounting"] == 1.0
        assert model.n_iter_ == 50

    def test_moments_accountant_of_the_paper(self):
        """The multiplier is the one that Abadi et al.'s accountant with 128 moments asks for."""
        from sottovoce.papers.dp_scd.published import MomentsAccountant
        from sottovoce.privacy.events import GaussianEvent, PoissonSampledEvent, RepeatedEvent

        plan = sv.plan(logistic(solver=Published(**PAPER)), *X.shape)
        claimed = RepeatedEvent(PoissonSampledEvent(0.1, GaussianEvent(plan.noise_multiplier)), 50)
        assert MomentsAccountant().epsilon(claimed, 1e-5) == pytest.approx(1.0, rel=5e-3)


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_a_notebook_shows_a_plan_in_plain_words_first(epsilon):
    shown = sv.plan(logistic(epsilon=epsilon), 1000, 5)._repr_html_()
    first = shown.partition("</tr>")[0]
    assert ("no noise" if math.isinf(epsilon) else "private for one row of the table") in first
    assert "The table has 1,000 rows and 5 columns." in first
    assert ("sottovoce.forecast" in first) == math.isfinite(epsilon)
    assert "<th" in shown.partition("alpha")[0]


def test_a_plan_for_persons_says_so_in_a_notebook():
    assert "private for one person" in sv.plan(logistic(max_rows_per_group=3), 1000, 5)._repr_html_()
