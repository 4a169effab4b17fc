"""Steps with momentum: they end for every penalty and budget, and they arrive."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import log_loss
from sklearn.preprocessing import normalize

import sottovoce as sv
from support.pairs import by_pairs

pytestmark = pytest.mark.filterwarnings("ignore::sottovoce.exceptions.SottovoceWarning")


@pytest.mark.parametrize(
    ("given", "epsilon", "alpha"),
    by_pairs(
        [{"classes": [0, 1], "solver": "momentum"}, {"solver": "multinomial-scd", "solver_options": {"steps": True}}],
        [1e-3, 1.0, 1e3], [1e-50, 1e-3, 1.0, 1e50],
    ),
)  # fmt: skip
def test_they_end_for_every_penalty_and_budget(given, epsilon, alpha):
    """Weights fall with the penalty, and no step runs away from it."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, (200, 3)), np.arange(200) % (2 if len(given.get("classes", ())) else 3)
    model = sv.DPLogisticRegression(**{
        "epsilon": epsilon, "delta": 1e-6, "data_norm": 1.0, "classes": [0, 1, 2], "alpha": alpha, "random_state": 0,
        **given,
    }).fit(X, y)  # fmt: skip
    largest = np.abs(model.coef_).max()
    assert np.isfinite(largest)
    assert largest <= max(1e-3, 20.0 / alpha) if alpha >= 1.0 else largest < 1e6


def test_badly_conditioned_columns_are_reached():
    """Two clouds a class on columns whose scales fall: passes stop short of them."""
    rng = np.random.default_rng(5)
    n, d, k = 12_000, 16, 10
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
    cloud, centres = rng.integers(2 * k, size=n), 1.6 * rng.standard_normal((2 * k, d))
    X = ((centres[cloud] + rng.standard_normal((n, d))) * 0.8 ** np.arange(d)) @ rotation
    X, y = np.clip(X / np.abs(X).max(), -1, 1), cloud % k

    def accuracy(**options):
        model = sv.DPLogisticRegression(
            epsilon=1.0, delta=1e-5, data_norm=4.0, classes=list(range(k)), random_state=0,
            solver="multinomial-scd", solver_options=options,
        )  # fmt: skip
        return model.fit(X[:9000], y[:9000]).score(X[9000:], y[9000:])

    assert accuracy() > accuracy(steps=False) + 0.04


def documents(k, n, d, seed):
    """Return documents of 60 words out of ``d``, and which of ``k`` laws each was drawn from."""
    rng = np.random.default_rng(seed)
    ranks, y = np.arange(1, d + 1), np.arange(n) % k
    chances = 0.5 * rng.standard_normal((k, d)) * (ranks > 50) - np.log(ranks)  # common words say nothing
    drawn = np.empty((n, 60), int)
    for label in range(k):
        law = np.exp(chances[label])
        drawn[y == label] = rng.choice(d, (np.sum(y == label), 60), p=law / law.sum())
    places = np.arange(0, drawn.size + 1, 60)
    return normalize(sp.csr_matrix((np.ones(drawn.size, np.float32), drawn.ravel(), places), (n, d))), y


def beside_a_constant(k, n, epsilon, seed):
    """Return the log loss of a default fit on documents, as a share of that of a constant."""
    X, y = documents(k, n + 2000, 5000, [8, seed])
    model = sv.DPLogisticRegression(
        epsilon=epsilon, delta=1e-5, data_norm=1.0, classes=list(range(k)), random_state=seed
    ).fit(X[:n], y[:n])
    loss = log_loss(y[n:], model.predict_proba(X[n:])) / np.log(k)
    print(f"{model.guarantee_.parameters['solver']}: {loss:.3f} of the log loss of a constant")
    return loss


@pytest.mark.parametrize(("k", "share"), [(2, 0.5), (4, 0.8)])
def test_thousands_of_columns_are_reached(k, share):
    """A reach that fell with the number of columns would stop near a constant."""
    assert beside_a_constant(k, 6000, 1.0, 0) < share


def test_steps_that_arrive_nowhere_are_not_averaged():
    """A mean of the last points leaves out what the last ones have seen: .673 where mu n is a fifth of the weights."""
    assert np.mean([beside_a_constant(2, 6000, 0.5, seed) for seed in range(4)]) < 0.66
