"""JAX Privacy: DP-SGD from its execution plan; settings and noise multiplier as for Opacus.

Batches are padded to one size, as the library advises, so that the step is compiled once.
"""

import math
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from dp_accounting import NeighboringRelation, pld
from jax_privacy import batch_selection
from jax_privacy.experimental.execution_plan import BandMFExecutionPlanConfig

from benchmarks.peers.job import AVERAGES, Models, average_starts, centred, run, with_constant
from benchmarks.peers.tuning import Setting


@lru_cache(maxsize=2)
def rows(path: str, constant: float) -> jax.Array:
    return jnp.asarray(with_constant(path, constant, True))


@lru_cache(maxsize=1)
def compiled(regression: bool, n: int, d: int, steps: int, batches: int, clip: float, rate: float, momentum: float,
             l2: float, sigma: float) -> tuple[Any, ...]:  # fmt: skip
    """Return plan, optimizer and compiled step; the fits of one setting share them."""

    def loss(w: jax.Array, row: jax.Array, label: jax.Array) -> jax.Array:
        z = row @ w
        return 0.5 * (z - label) ** 2 if regression else jax.nn.softplus(-label * z)

    plan = BandMFExecutionPlanConfig(
        iterations=steps, strategy=np.array([1.0]), epsilon=None, delta=None, noise_multiplier=sigma,
        l2_clip_norm=clip, rescale_to_unit_norm=False, normalize_by=n / batches, sampling_prob=1.0 / batches,
        partition_type=batch_selection.PartitionType.INDEPENDENT,
        accountant=pld.PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE), noise_seed=0,
    ).plan  # fmt: skip
    gradient = plan.clipped_grad(
        loss, batch_argnums=(1, 2), keep_batch_dim=False, microbatch_size=512 if n * d > 5e7 else None
    )
    optimizer = optax.chain(optax.add_decayed_weights(l2), optax.sgd(rate, momentum=momentum if momentum else None))

    @jax.jit
    def step(X, y, w, totals, state, noise_state, indices, late):
        summed = gradient(w, X[indices], y[indices], is_padding_example=indices < 0)
        noisy, noise_state = plan.noise_addition_transform.update(summed, noise_state)
        updates, state = optimizer.update(noisy, state, w)
        w = optax.apply_updates(w, updates)
        return w, totals + late[:, None] * w, state, noise_state

    return plan, optimizer, step


def train(path: str, job: dict[str, Any], setting: Setting, seed: int) -> Models:
    X, y = rows(path, setting["constant"]), jnp.asarray(centred(path, setting), jnp.float32)
    n, d = X.shape
    batches, momentum, clip = setting["batches"], setting["momentum"], setting["clip"]
    steps = batches * setting["epochs"]
    rate = setting["step"] * (1.0 - momentum) / clip
    plan, optimizer, step = compiled(
        job["task"] == "regression", n, d, steps, batches, clip, rate, momentum, setting["l2"], setting["sigma"]
    )
    w, totals, starts = jnp.zeros(d, jnp.float32), jnp.zeros((len(AVERAGES), d), jnp.float32), average_starts(steps)
    state = optimizer.init(w)
    noise_state = (jax.random.key(seed), *plan.noise_addition_transform.init(w)[1:])
    expected = n / batches
    size = n if batches == 1 else expected + 5.0 * math.sqrt(expected)
    size = 512 * math.ceil(size / 512)
    for taken, indices in enumerate(plan.batch_selection_strategy.batch_iterator(n, rng=seed)):
        padded = batch_selection.pad_to_multiple_of(indices.astype(np.int32), size)
        if not len(padded):
            padded = np.full(size, -1, np.int32)
        late = (taken >= starts).astype(np.float32)
        w, totals, state, noise_state = step(X, y, w, totals, state, noise_state, padded, late)
    found = np.asarray(totals, dtype=np.float64) / (steps - starts)[:, None]
    return {share: (w[:-1], float(w[-1] * setting["constant"])) for share, w in zip(AVERAGES, found, strict=True)}


if __name__ == "__main__":
    run(train)
