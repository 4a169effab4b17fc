"""Delta-Siege (Lokna et al., CCS 2023) attacks the Gaussian on a grid: a classifier that sees all 64 bits of a release.

It trains a model on the bits of many releases of 0 and of 1, and looks for an (epsilon, delta) at which the two tell
more apart than the mechanism allows: the result is a ratio, below 1 for a violation. The same noise added as floating-
point numbers is found at once. ``make outside`` runs this.
"""

from unittest import mock

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, to_ticks


class _No:
    """False, which their trials also call."""

    def __bool__(self) -> bool:
        return False

    __call__ = __bool__


@pytest.fixture(scope="module")
def siege(without):
    with without("torch", "pydp", "opendp", "diffprivlib", "aim", "cdp2adp", "mbi", "mst", "dpopt"):
        yield pytest.importorskip("deltasiege", reason="`make outside` has Delta-Siege")


def noise_for(epsilon, delta):
    """Return the standard deviation of the Gaussian mechanism for sensitivity 1 (Balle, Wang 2018, Theorem 8)."""
    if not (epsilon >= 0.0 and 0.0 < delta < 1.0):
        return np.inf
    if epsilon == np.inf:
        return 0.0

    def excess(log_std):
        std = np.exp(log_std)
        return ndtr(0.5 / std - epsilon * std) - np.exp(epsilon) * ndtr(-0.5 / std - epsilon * std) - delta

    return float(np.exp(brentq(excess, -5.0, 20.0)))


def on_a_grid(value, std, n, rng):
    mechanism = GridGaussian(1.0, std, power_of_two_below(std) * 2.0**-20)
    return mechanism.release(to_ticks(np.full(n, float(value)), mechanism.tick), rng)[0]


def too_little(value, std, n, rng):
    return on_a_grid(value, 0.7 * std, n, rng)


def in_single_precision(value, std, n, rng):
    return (np.float32(value) + np.float32(std) * rng.standard_normal(n, np.float32)).astype(np.float64)


def attacked(siege, release, epsilon, delta, n=20_000):
    """Return the ratio that their search finds, with confidence."""
    rng = np.random.default_rng(0)

    class Ours(siege.mechanism.Mechanism):
        store_data = property(lambda self: _No())

        def guarantee_(self, epsilon, delta):
            return noise_for(epsilon, delta)

        def __call__(self, value, n):
            return release(value, self.g0, n, rng)[:, None]

    def classifier():
        return make_pipeline(siege.classifiers.BitPatternFeatureTransformer(), LogisticRegression(max_iter=200))

    space = siege.ddsampler.SimpleSampler(Ours, [(0.0, 1.0)], epsilon=(epsilon, epsilon), delta=(delta, delta))
    config = siege.Config(
        n_train=n, n_init=n, n_check=n, n_final=n, batch_size=n, n_jobs=1, n_experiments=1, confidence=0.999
    )
    steps = np.concatenate([[delta], np.exp(np.linspace(np.log(1e-6), 0.0, 40))[:-1]])
    search = siege.DeltaSiege(
        config=config, search_space=space,
        classifier_factories=siege.classifiers.SklearnClassifier.get_factory(classifier=classifier()),
        witnesses_factories=siege.WitnessOptimization.get_factory(estimator=siege.LinesearchEstimator(delta_steps=steps)),
        logger=siege.Logger(siege.Logger.State.DOWN),
    )  # fmt: skip
    with mock.patch.object(siege.main.Run, "run", lambda run: [each.run() for each in run.experiments]):  # not stored
        (trial,) = search.run().experiments[0].trials
    return trial.witnesses[trial.best_witness_idx].estimate_c


@pytest.mark.parametrize(
    ("release", "holds"), [(on_a_grid, True), (too_little, False), (in_single_precision, False)],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
@pytest.mark.parametrize("epsilon", [1.0, 0.1])
def test_the_bits_of_a_release_say_no_more_than_the_gaussian(siege, release, holds, epsilon):
    found = attacked(siege, release, epsilon, 0.1 if release is too_little else 1e-3)
    print(f"{release.__name__} at epsilon {epsilon}: {found:.3f}")
    assert (found >= 1.0) == holds
