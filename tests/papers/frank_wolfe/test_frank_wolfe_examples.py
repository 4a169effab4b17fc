"""The worked examples of block Frank-Wolfe against optima found by other means."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.svm import LinearSVC

from examples import group_fused_lasso as fused
from examples import structural_svm as svm


def primal(w, psi, losses, l2):
    return 0.5 * l2 * w @ w + (losses - psi @ w).max(axis=1).mean()


def iris(n):
    X, y = load_iris(return_X_y=True)
    chosen = np.random.default_rng(0).permutation(len(X))[:n]
    return (X[chosen] - X.mean(0)) / X.std(0), y[chosen]


def test_multiclass_machine_is_that_of_crammer_and_singer():
    X, y = iris(40)
    l2 = 0.05
    psi, losses = svm.multiclass(X, y)
    w, result = svm.structural_svm(psi, losses, l2, tol=2e-4)
    assert result.converged
    other = LinearSVC(
        C=1.0 / (l2 * len(X)), multi_class="crammer_singer", dual=True, fit_intercept=False, tol=1e-10, max_iter=10**6
    ).fit(X, y)
    best = primal(other.coef_.ravel(), psi, losses, l2)
    assert -1e-6 <= primal(w, psi, losses, l2) - best <= result.gap
    # a strongly convex objective: |w - w*|^2 <= 2 (primal - least) / l2
    assert np.linalg.norm(w - other.coef_.ravel()) <= np.sqrt(2 * result.gap / l2)
    # the gap is primal less dual
    assert primal(w, psi, losses, l2) + result.value == pytest.approx(result.gap, abs=1e-12)


def test_sequences():
    """Chains of four labels, 16 candidates each; labels stay in runs, which the second part of the weights sees."""
    rng = np.random.default_rng(1)
    y = np.repeat(rng.integers(0, 2, (12, 2)), 2, axis=1)
    X = rng.normal(size=(12, 4, 2)) + (2 * y[..., None] - 1) * [1.0, 0.0]
    psi, losses = svm.sequences(X, y)
    own = np.flatnonzero(losses[0] == 0.0)
    assert losses.shape == (12, 16)
    assert len(own) == 1
    assert not psi[0, own[0]].any()
    # by hand: features of the states that are 1, then how often 00, 01, 10, 11 follow
    other, chain = np.array([1, 0, 1, 1]), y[0]
    by_hand = [
        np.r_[X[0][labels == 1].sum(0), np.bincount(2 * labels[:-1] + labels[1:], minlength=4)]
        for labels in (chain, other)
    ]
    assert psi[0, 0b1011] == pytest.approx(by_hand[0] - by_hand[1])
    w, result = svm.structural_svm(psi, losses, 0.05, tol=2e-3)
    assert primal(w, psi, losses, 0.05) + result.value == pytest.approx(result.gap, abs=1e-12)
    # no other weights are better by more than the gap
    nearby = w + 0.3 * rng.normal(size=(200, len(w)))
    assert min(primal(v, psi, losses, 0.05) for v in nearby) >= primal(w, psi, losses, 0.05) - result.gap
    right = (losses.argmin(1) == (-(psi @ w)).argmax(1)).mean()
    assert right >= 0.75


def accelerated(Y, penalty, steps=3000):
    """The dual by projected accelerated gradients."""
    D = np.diff(np.eye(len(Y)), axis=0)
    U = ahead = np.zeros((len(D), Y.shape[1]))
    pace = 1.0
    for _ in range(steps):
        moved = ahead - D @ (D.T @ ahead - Y) / 4.0
        moved *= np.minimum(1.0, penalty / np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-300))
        faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * pace**2))
        ahead = moved + (pace - 1.0) / faster * (moved - U)
        U, pace = moved, faster
    return Y - D.T @ U


def test_change_points_are_those_of_the_optimum():
    _, Y = fused.steps_with_noise(n=24, noise=0.3)
    X, changes, result = fused.group_fused_lasso(Y, 2.0, tol=1e-4)
    best = accelerated(Y, 2.0)
    assert result.converged
    assert np.flatnonzero(np.linalg.norm(np.diff(best, axis=0), axis=1) > 1e-4).tolist() == (changes - 1).tolist()
    assert {8, 16} <= set(changes.tolist())
    # |X - X*|^2 / 2 is at most the gap of the dual, which is divided by the entries
    assert np.sum((X - best) ** 2) <= 2.0 * result.gap * Y.size
    jumps = np.linalg.norm(np.diff(X, axis=0), axis=1).sum()
    assert (
        0.5 * np.sum((X - Y) ** 2) + 2.0 * jumps
        <= 0.5 * np.sum((best - Y) ** 2)
        + 2.0 * np.linalg.norm(np.diff(best, axis=0), axis=1).sum()
        + result.gap * Y.size
    )
