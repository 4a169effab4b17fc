"""Opacus: DP-SGD with PyTorch; settings and noise multiplier come from the search with the fast implementation.

The rows are one tensor, fetched a batch at a time: loaded row by row from a TensorDataset, as its tutorials do, loading
would take most of the time.
"""

import math
import os
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from opacus import PrivacyEngine
from opacus.accountants.utils import get_noise_multiplier
from torch.utils.data import DataLoader, Dataset

from benchmarks.peers.job import AVERAGES, Models, average_starts, centred, load, run, with_constant
from benchmarks.peers.tuning import Setting

torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


class Table(Dataset):
    """Rows and labels, by a list of indices."""

    def __init__(self, X: torch.Tensor, y: torch.Tensor):
        self.X, self.y = X, y

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.X[i], self.y[i]

    def __getitems__(self, indices: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        if len(indices) == len(self.y):
            return self.X, self.y
        chosen = torch.as_tensor(indices)
        return self.X[chosen], self.y[chosen]


@lru_cache
def taught_noise(epsilon: float, delta: float, batches: int) -> float:
    """Return what make_private_with_epsilon takes for 20 epochs; seeds share it."""
    return get_noise_multiplier(
        target_epsilon=epsilon, target_delta=delta, sample_rate=1.0 / batches, epochs=20, accountant="prv"
    )


def train_as_taught(path: str, job: dict[str, Any], setting: Setting, seed: int) -> Models:
    """Train with the settings of its tutorial of image classification, on rows as they were before they were scaled."""
    torch.manual_seed(seed)
    split, unit, regression = load(path), setting["data_norm"], job["task"] == "regression"
    X = torch.from_numpy(np.float32(unit) * (split.X.toarray() if sp.issparse(split.X) else split.X))
    y = torch.from_numpy(split.y if regression else np.maximum(split.y, 0.0).astype(np.int64))
    model = torch.nn.Linear(X.shape[1], 1 if regression else int(y.max()) + 1)
    loss = torch.nn.MSELoss() if regression else torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    loader = DataLoader(Table(X, y), batch_size=512, collate_fn=lambda batch: batch)
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model, optimizer=optimizer, data_loader=loader, max_grad_norm=1.2,
        noise_multiplier=taught_noise(job["epsilon"], job["delta"], len(loader)),
    )  # fmt: skip
    for _ in range(20):
        for rows, labels in loader:
            optimizer.zero_grad()
            z = model(rows)
            (loss(z[:, 0], labels) if regression else loss(z, labels)).backward()
            optimizer.step()
    w, b = (each.detach().numpy().astype(np.float64) for each in model.parameters())
    w, b = (w[-1:] - w[:1], b[-1:] - b[:1]) if len(w) == 2 else (w, b)
    return {None: (unit * w[0], b[0]) if len(w) == 1 else (unit * w.T, b)}


def train(path: str, job: dict[str, Any], setting: Setting, seed: int) -> Models:
    if setting.get("tutorial"):
        return train_as_taught(path, job, setting, seed)
    torch.manual_seed(seed)
    X = torch.from_numpy(with_constant(path, setting["constant"], True))
    y = torch.from_numpy(centred(path, setting).astype(np.float32))
    regression = job["task"] == "regression"
    model = torch.nn.Linear(X.shape[1], 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    momentum = setting["momentum"]
    optimizer = torch.optim.SGD(
        model.parameters(), lr=setting["step"] * (1.0 - momentum) / setting["clip"], momentum=momentum,
        weight_decay=setting["l2"],
    )  # fmt: skip
    size = math.ceil(len(y) / setting["batches"])
    loader = DataLoader(Table(X, y), batch_size=size, collate_fn=lambda batch: batch)
    model, optimizer, loader = PrivacyEngine(accountant="rdp").make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=setting["sigma"],
        max_grad_norm=setting["clip"], poisson_sampling=True,
    )  # fmt: skip
    if len(loader) != setting["batches"]:
        raise RuntimeError(f"opacus makes {len(loader)} batches, not {setting['batches']}: the noise would be wrong")
    starts = average_starts(setting["batches"] * setting["epochs"])
    taken, totals, counts = 0, torch.zeros(len(starts), X.shape[1]), np.zeros(len(starts))
    for _ in range(setting["epochs"]):
        for rows, labels in loader:
            optimizer.zero_grad()
            z = model(rows).squeeze(-1)
            loss = 0.5 * (z - labels) ** 2 if regression else torch.nn.functional.softplus(-labels * z)
            loss.mean().backward()
            optimizer.step()
            late = taken >= starts
            totals[late] += model._module.weight.detach()[0]
            counts += late
            taken += 1
    found = totals.numpy().astype(np.float64) / counts[:, None]
    return {share: (w[:-1], float(w[-1] * setting["constant"])) for share, w in zip(AVERAGES, found, strict=True)}


if __name__ == "__main__":
    run(train)
