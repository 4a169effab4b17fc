"""The libraries to compare with: an environment of its own for each, with pinned versions, and how a job is given."""

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.driver import RESULTS, ROOT

FOLDER = RESULTS / "peers"


class Peer(NamedTuple):
    """A library to compare with."""

    script: str
    pins: tuple[tuple[str, ...], ...]  # what pip installs, one call each; none: this environment
    tasks: tuple[str, ...] = ("binary", "regression")
    tuned_by: str = ""  # the peer whose settings it takes
    is_tuned: bool = True  # by our search; else it takes part among the fair ones only


PEERS = {
    "dpsgd": Peer("fast_dpsgd", (), ("binary", "multiclass", "regression")),
    "paid-dpsgd": Peer("run_paid_dpsgd", (), ("binary", "multiclass", "regression"), is_tuned=False),
    "boosted-adassp": Peer("run_boosted_adassp", (), ("regression",), is_tuned=False),
    "diffprivlib": Peer(
        "run_diffprivlib", (("diffprivlib==0.6.6", "scikit-learn==1.5.2", "numpy==2.2.6", "scipy==1.15.3"),),
    ),
    "snapml": Peer(
        "run_snapml", (("snapml==1.17.2", "scikit-learn==1.9.1", "numpy==2.4.6", "scipy==1.17.1"),)
    ),
    "opacus": Peer(
        "run_opacus", (("torch==2.13.0",), ("opacus==1.6.0", "numpy==2.4.6", "scipy==1.17.1")), tuned_by="dpsgd"
    ),
    "interpret": Peer(
        "run_interpret", (("interpret-core==0.7.8", "scikit-learn==1.9.1", "numpy==2.4.6", "scipy==1.17.1"),),
        is_tuned=False,
    ),
    "jax-privacy": Peer(
        "run_jax_privacy",
        (
            (
                "jax-privacy==2.0.0", "jax==0.10.2", "jaxlib==0.10.2", "optax==0.2.8", "dp-accounting==0.6.0",
                "numpy==2.4.6", "scipy==1.17.1",
            ),
        ),
        tuned_by="dpsgd",
    ),
}  # fmt: skip


def tunable() -> list[str]:
    """Return the peers whose settings our search chooses."""
    return [name for name, peer in PEERS.items() if peer.is_tuned]


def at_hand() -> list[str]:
    """Return those of them that need no environment, or have one."""
    return [name for name in tunable() if not PEERS[name].pins or (environment(name) / "ready").exists()]


def environment(name: str) -> Path:
    """Return the folder of a peer's environment."""
    return ROOT / "benchmarks" / ".peers" / name


def interpreter(name: str) -> str:
    """Return the Python of a peer's environment, made at first use."""
    peer = PEERS[name]
    if not peer.pins:
        return sys.executable
    folder = environment(name)
    python = folder / "bin" / "python"
    ready = folder / "ready"
    wanted = json.dumps(peer.pins)
    if not (ready.exists() and ready.read_text(encoding="utf-8") == wanted):
        print(f"making the environment of {name} ...", flush=True)
        venv.create(folder, with_pip=True)
        for pins in peer.pins:
            subprocess.run([python, "-m", "pip", "install", "--quiet", *pins], check=True)
        ready.write_text(wanted, encoding="utf-8")
    return str(python)


def work(name: str, job: dict[str, Any], threads: int = 1) -> dict[str, Any] | None:
    """Let a peer do a job on that many cores; None if it broke."""
    alone = {f"{library}_NUM_THREADS": str(threads) for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    alone["XLA_FLAGS"] = (
        f"--xla_cpu_multi_thread_eigen={str(threads > 1).lower()} intra_op_parallelism_threads={threads}"
    )
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        question, answer = Path(folder) / "job.json", Path(folder) / "answer.json"
        question.write_text(json.dumps(job), encoding="utf-8")
        log = FOLDER / f"{name}.log"
        paths = () if PEERS[name].pins else ("PYTHONPATH",)  # this environment's own stays; others must not see it
        kept = {key: value for key, value in os.environ.items() if key in paths or key != "PYTHONPATH"}
        with log.open("a", encoding="utf-8") as output:
            done = subprocess.run(
                [interpreter(name), "-m", f"benchmarks.peers.{PEERS[name].script}", str(question), str(answer)],
                cwd=ROOT, env={**kept, **alone}, stdout=subprocess.DEVNULL, stderr=output,
            )  # fmt: skip
        if done.returncode or not answer.exists():
            print(f"{name} failed, see {log}", flush=True)
            return None
        return dict(json.loads(answer.read_text(encoding="utf-8")))
