"""Opacus: DP-SGD with PyTorch; settings and noise multiplier come from the search with the fast implementation.

The rows are one tensor, fetched a batch at a time: without that, loading would take most of the time. ``usual: true``
loads them as its tutorials do, row by row from a TensorDataset, for the comparison of speed.
"""

import math
from typing import Any

import numpy as np
import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks.peers.job import load, run, with_constant
from benchmarks.peers.tuning import Setting

torch.set_num_threads(1)


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


def train(path: str, job: dict[str, Any], setting: Setting, seed: int) -> tuple[np.ndarray, float]:
    """Train one model."""
    torch.manual_seed(seed)
    X = torch.from_numpy(with_constant(path, setting["constant"], True))
    y = torch.from_numpy(load(path).y.astype(np.float32))
    regression = job["task"] == "regression"
    model = torch.nn.Linear(X.shape[1], 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    momentum = setting["momentum"]
    optimizer = torch.optim.SGD(
        model.parameters(), lr=setting["step"] * (1.0 - momentum) / setting["clip"], momentum=momentum,
        weight_decay=setting["l2"],
    )  # fmt: skip
    size = math.ceil(len(y) / setting["batches"])
    if setting.get("usual"):
        loader = DataLoader(TensorDataset(X, y), batch_size=size)
    else:
        loader = DataLoader(Table(X, y), batch_size=size, collate_fn=lambda batch: batch)
    model, optimizer, loader = PrivacyEngine(accountant="rdp").make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=setting["sigma"],
        max_grad_norm=setting["clip"], poisson_sampling=True,
    )  # fmt: skip
    if len(loader) != setting["batches"]:
        raise RuntimeError(f"opacus makes {len(loader)} batches, not {setting['batches']}: the noise would be wrong")
    steps = setting["batches"] * setting["epochs"]
    taken, total, averaged = 0, torch.zeros(X.shape[1]), 0
    for _ in range(setting["epochs"]):
        for rows, labels in loader:
            optimizer.zero_grad()
            z = model(rows).squeeze(-1)
            loss = 0.5 * (z - labels) ** 2 if regression else torch.nn.functional.softplus(-labels * z)
            loss.mean().backward()
            optimizer.step()
            taken += 1
            if 2 * taken > steps:
                total += model._module.weight.detach()[0]
                averaged += 1
    w = (total / averaged if setting["average"] else model._module.weight.detach()[0]).numpy().astype(np.float64)
    return w[:-1], float(w[-1] * setting["constant"])


if __name__ == "__main__":
    run(train)
