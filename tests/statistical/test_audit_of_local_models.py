"""Audits of ``mechanism="local-models"`` through the estimator, each from what an adversary sees of whole fits.

(a) another party sees the released labels; (b) whoever gets a party's private model, with every noisy release behind
it, knows the released labels and all other rows; (c) both, when the label is replaced together with the rows. The score
is the exact log-likelihood ratio of everything that is seen. At the planned noise the lower bound on epsilon stays
below the receipt's; at 0.7 of it, it must not. Seeds are fixed; over them a bound is too high with probability 0.001.
"""

import numpy as np
import pytest

from sottovoce.audit import epsilon_lower_bound, gaussian_lower_bound
from sottovoce.privacy.mechanisms.randomized_response import RandomizedResponse
from sottovoce.randomness import Streams
from sottovoce.vertical import Party, VerticalLogisticRegression, VerticalRidge
from sottovoce.vertical.coordinator.parties import InProcessParties
from sottovoce.vertical.protocols.local_models import plan as local_models
from sottovoce.vertical.protocols.local_models.messages import TrainOnLabels
from support.transcript import Transcript

DELTA = 0.05
# made up rows, and a delta that few runs can resolve
pytestmark = pytest.mark.filterwarnings("ignore:delta=:sottovoce.exceptions.PrivacyWarning")
FACTORS = pytest.mark.parametrize(
    "factor", [1.0, pytest.param(0.7, marks=pytest.mark.slow)], ids=lambda factor: f"noise x {factor}"
)

rng = np.random.default_rng(0)
OWN = rng.normal(size=(9, 2))
OTHERS = np.abs(rng.normal(size=(9, 2)))
OTHERS /= np.linalg.norm(OTHERS, axis=1, keepdims=True)
SIGNS = np.where(rng.random(10) < 0.5, 1.0, -1.0)
ONE, OTHER = np.array([1.0, 0.0]), np.array([0.0, 1.0])


def parties(row):
    columns = np.vstack([OTHERS, row])
    return InProcessParties([
        Party(np.vstack([OWN, row]), name="holder"),
        Party(columns, name="other", data_norm=1.0, nonnegative=True),
    ])  # fmt: skip


def labels(last):
    return np.append(SIGNS[:-1], last)


def estimator(kind, seed, **changed):
    parameters = {"delta": DELTA, "alpha": 0.1, "random_state": seed, **changed}
    if kind == "ridge":
        return VerticalRidge(label_bounds=(-1.0, 1.0), **parameters)
    return VerticalLogisticRegression(classes=[-1, 1], **parameters)


def fits(monkeypatch, kind, rows, last_labels, **parameters):
    """Return the receipts of a fit, and for each table a function that trains by the same plan with a seed."""
    trainings = []
    for row, last in zip(rows, last_labels, strict=True):
        group, y = parties(row), labels(last)
        model = estimator(kind, 0, **parameters).fit(group, y)

        def train(seed, group=group, y=y, plan=model.plan_):
            with group.parties["other"].seeded(2 * seed + 1):
                plan.solve(group, y, "trial", Streams(2 * seed))

        trainings.append(train)
    # the label holder's own model is not released; the one of the fit above will do for all trials
    monkeypatch.setattr(local_models, "train_alone", lambda *given: None)
    return model, trainings


@FACTORS
def test_released_labels(factor, monkeypatch):
    """Each of 200 people in each of 40 fits is a run: everybody has a coin of their own."""
    threshold = RandomizedResponse.__dict__["_threshold"].func
    monkeypatch.setattr(RandomizedResponse, "_threshold", property(lambda one: int(factor * threshold(one))))
    X = np.random.default_rng(1).uniform(0.0, 0.5, (200, 4))
    scores = []
    for sign in (1.0, -1.0):
        seen = []
        for seed in range(40):
            group = InProcessParties([Party(X[:, :2], name="holder"), Party(X[:, 2:], name="other", data_norm=1.0)])
            with group.recorded() as crossings:
                model = estimator("logistic", seed, epsilon=2.0).fit(group, np.full(200, sign))
            seen += [c.message.labels for c in crossings if isinstance(c.message, TrainOnLabels)]
        scores.append(np.concatenate(seen))
    claimed = model.party_guarantees_["holder"].epsilon_at(0.0)
    bound = epsilon_lower_bound(*scores, delta=0.0)
    print(f"labels, noise x {factor}: epsilon >= {bound:.3f}, claimed {claimed:.3f} at delta = 0")
    assert claimed == pytest.approx(1.5)
    assert 0.85 * claimed < bound < claimed if factor == 1.0 else bound > claimed


@FACTORS
@pytest.mark.parametrize("kind", ["logistic", "ridge"])
def test_private_model(kind, factor, monkeypatch):
    """The rows at both parties are replaced; the label stays, and so does the released one.

    Nearly all of the logistic model's budget is for the sum of rows times labels here, which these rows move furthest.
    """
    transcript = Transcript(monkeypatch, factor)
    model, trainings = fits(
        monkeypatch, kind, (ONE, OTHER), (1.0, 1.0), epsilon=6.0, mechanism_options={"label_share": 0.005}
    )
    claimed = model.party_guarantees_["other"].epsilon
    bound = gaussian_lower_bound(*transcript.scores(trainings, 1000), delta=DELTA)
    print(f"{kind} model, noise x {factor}: epsilon >= {bound:.3f}, claimed {claimed:.3f} at delta = {DELTA}")
    assert 0.5 * claimed < bound < claimed if factor == 1.0 else bound > claimed


@FACTORS
def test_labels_and_model_together(factor, monkeypatch):
    """The rows at both parties and the label are replaced together."""
    transcript = Transcript(monkeypatch, factor)
    model, trainings = fits(
        monkeypatch, "ridge", (ONE, OTHER), (1.0, -1.0), epsilon=2.0, mechanism_options={"label_share": 0.4}
    )
    claimed = model.guarantee_.epsilon
    bound = epsilon_lower_bound(*transcript.scores(trainings, 1500), delta=DELTA)
    print(f"labels and model, noise x {factor}: epsilon >= {bound:.3f}, claimed {claimed:.3f} at delta = {DELTA}")
    assert 0.5 * claimed < bound < claimed if factor == 1.0 else bound > claimed
