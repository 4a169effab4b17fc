"""Library defaults, nothing tuned, against other libraries, each tuned: accuracy and seconds of a fit.

    python -m benchmarks.peers.compare              what is not yet in benchmarks/results/peers/, then the table
    python -m benchmarks.peers.compare --ours-only  our own fits again, then the table with the peers' cached results
    python -m benchmarks.peers.compare --table      the table only
    python -m benchmarks.peers.compare --speed      seconds of whole private trainings, in one run

Options: --only phishing,a9a --peers opacus,snapml --epsilons 0.1,1 --deltas 1e-3 --seeds 10 --tune-on test --quick

Every peer gets an environment of its own in benchmarks/.peers/ with pinned versions, and a script in benchmarks/peers/.
Their settings are chosen in every cell by the score on a quarter of the training rows that is held out for it, without
privacy and at no cost, as in the paper's own protocol (Appendix E); the reported fits use all training rows.
``--tune-on test`` chooses by the score on the test set instead, which rewards the luck of that set. DP-SGD is tuned
with a fast implementation (``dpsgd``, itself a row of the table); opacus and
jax-privacy run with the cheapest of its settings within one standard error of the best. Two peers promise something
else: diffprivlib pure DP (more), Snap ML a fixed delta of 0.01 (less), so that delta changes nothing for them.

The data are prepared in the same way for everybody. BlogFeedback's columns are divided by their largest absolute value
in the training part, which is taken as public, and peers get its labels centred by the public constant 1.

A cell shows the median over the seeds and its standard error (bootstrap over the seeds; the test set is fixed).
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
import warnings
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import train_test_split

import sottovoce as sv
from benchmarks.common import (
    EPSILONS,
    RESULTS,
    ROOT,
    a9a,
    adult,
    blogfeedback,
    make_parser,
    mnist_4v9,
    phishing,
    reuters,
    show,
)
from sottovoce.exceptions import PrivacyWarning

FOLDER = RESULTS / "peers"
HELD_OUT = 0.25  # of the training rows, to choose the settings of a peer
DELTAS = (1e-3, 1e-5)

DATA = {  # in the order in which they are run
    "phishing": (phishing, sv.DPLogisticRegression),
    "a9a": (a9a, sv.DPLogisticRegression),
    "reuters": (reuters, sv.DPLogisticRegression),
    "mnist_4v9": (mnist_4v9, sv.DPLogisticRegression),
    "adult": (adult, sv.DPLogisticRegression),
    "blogfeedback": (partial(blogfeedback, scale_columns=True), sv.DPRidge),
}
CENTRE = 1.0  # of the labels of blogfeedback

# DP-SGD's settings for --speed where a9a has not been tuned yet
UNTUNED = {
    "epochs": 20, "batches": 20, "clip": 1.0, "step": 1.6, "constant": 0.3, "momentum": 0.0, "l2": 0.0, "average": True,
}  # fmt: skip

NOTES = """\
Every peer's settings were chosen in each cell on {tuned_on}, without privacy and at no cost; ours are the defaults.
Several peers run the same algorithm (dpsgd, opacus, jax-privacy): the best of them is in part luck, in their favour.
diffprivlib promises pure DP and ignores delta; Snap ML promises (epsilon, 0.01)-DP at both values of delta.
opacus and jax-privacy run with the cheapest settings that the search with dpsgd found within one standard error of its
best, and with fewer seeds on reuters and blogfeedback.
The columns of blogfeedback were divided by their largest absolute value in the training part, taken as public.
Seconds are of a busy machine unless it was left alone: see --speed for a comparison."""


class Peer(NamedTuple):
    """A library to compare with."""

    script: str
    pins: tuple[tuple[str, ...], ...]  # what pip installs, one call each; none: this environment
    uses_delta: bool = True
    tuned_by: str = ""  # the peer whose settings it takes


PEERS = {
    "dpsgd": Peer("fast_dpsgd", ()),
    "diffprivlib": Peer(
        "run_diffprivlib",
        (("diffprivlib==0.6.6", "scikit-learn==1.5.2", "numpy==2.2.6", "scipy==1.15.3"),),
        uses_delta=False,
    ),
    "snapml": Peer(
        "run_snapml",
        (("snapml==1.17.2", "scikit-learn==1.9.1", "numpy==2.4.6", "scipy==1.17.1"),),
        uses_delta=False,
    ),
    "opacus": Peer(
        "run_opacus",
        (("torch==2.13.0",), ("opacus==1.6.0", "numpy==2.4.6", "scipy==1.17.1")),
        tuned_by="dpsgd",
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


def at_hand() -> list[str]:
    """Return the peers that need no environment, or have one."""
    return [name for name, peer in PEERS.items() if not peer.pins or (environment(name) / "ready").exists()]


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


def work(name: str, job: dict[str, Any]) -> dict[str, Any] | None:
    """Let a peer do a job on one core; None if it broke."""
    alone = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    alone["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    with tempfile.TemporaryDirectory() as folder:
        question, answer = Path(folder) / "job.json", Path(folder) / "answer.json"
        question.write_text(json.dumps(job), encoding="utf-8")
        log = FOLDER / f"{name}.log"
        with log.open("a", encoding="utf-8") as output:
            done = subprocess.run(
                [interpreter(name), "-m", f"benchmarks.peers.{PEERS[name].script}", str(question), str(answer)],
                cwd=ROOT,
                env={**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, **alone},
                stdout=subprocess.DEVNULL,
                stderr=output,
            )
        if done.returncode or not answer.exists():
            print(f"{name} failed, see {log}", flush=True)
            return None
        return dict(json.loads(answer.read_text(encoding="utf-8")))


def parts_for_peers(name: str, seed: int) -> tuple[Any, ...]:
    """Return the split as peers get it: rows divided by the public norm, labels -1 and 1 or centred."""
    X, y, X_test, y_test, public = load(name, seed)
    norm = public["data_norm"]
    if "label_bounds" in public:
        return X / norm, y - CENTRE, X_test / norm, y_test - CENTRE, public
    high = public["classes"][1]
    signs = (np.where(np.asarray(labels) == high, 1.0, -1.0) for labels in (y, y_test))
    return X / norm, next(signs), X_test / norm, next(signs), public


@cache
def load(name: str, seed: int) -> tuple[Any, ...]:
    """Return a split; only phishing has more than one."""
    return DATA[name][0](seed)  # type: ignore[operator]


def splits(name: str, seeds: int) -> list[str]:
    """Write the splits for the peers, and return their paths."""
    paths = []
    for seed in range(seeds if name == "phishing" else 1):
        path = FOLDER / "data" / f"{name}-{seed}.npz"
        if not path.exists():
            X, y, X_test, y_test, _ = parts_for_peers(name, seed)
            write_split(path, X, y, X_test, y_test)
        paths.append(str(path))
    return paths


def tuning_split(name: str) -> str:
    """Write three quarters of the first split's training rows, the last quarter in place of the test part."""
    path = FOLDER / "data" / f"{name}-held-out.npz"
    if not path.exists():
        X, y, _, _, _ = parts_for_peers(name, 0)
        X, X_held, y, y_held = train_test_split(X, y, test_size=HELD_OUT, random_state=0)
        write_split(path, X, y, X_held, y_held)
    return str(path)


def write_split(path: Path, X: Any, y: Any, X_test: Any, y_test: Any) -> None:
    """Write one split as job.py reads it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {}
    for part, rows, labels in (("train", X, y), ("test", X_test, y_test)):
        rows = sp.csr_matrix(rows, dtype=np.float32)
        arrays[f"{part}_data"], arrays[f"{part}_shape"] = rows.data, np.array(rows.shape)
        arrays[f"{part}_indices"] = rows.indices.astype(np.int32)
        arrays[f"{part}_indptr"] = rows.indptr.astype(np.int32)
        arrays[f"{part}_y"] = np.asarray(labels, dtype=np.float32)
    np.savez(path, **arrays)


def cell_path(peer: str, data: str, epsilon: float, delta: float, options: argparse.Namespace) -> Path:
    """Return where a result is kept."""
    delta_part = f"{delta:g}" if peer == "ours" or PEERS[peer].uses_delta else "any"
    kind = "" if peer == "ours" or options.tune_on == "validation" else "-tuned-on-test"
    quick = "-quick" if options.quick else ""
    return FOLDER / f"{data}-{epsilon:g}-{delta_part}-{peer}{kind}{quick}.json"


def cached(path: Path) -> dict[str, Any] | None:
    """Return a kept result."""
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def ours(data: str, epsilon: float, delta: float, seeds: int) -> dict[str, Any]:
    """Fit the defaults."""
    scores, seconds, passes = [], [], 0
    for seed in range(seeds):
        X, y, X_test, y_test, public = load(data, seed if data == "phishing" else 0)
        model = DATA[data][1](epsilon=epsilon, delta=delta, random_state=seed, **public)  # type: ignore[operator]
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)  # about the seed
            model.fit(X, y)
        seconds.append(time.perf_counter() - start)
        regression = "label_bounds" in public
        scores.append(
            -float(np.mean((model.predict(X_test) - y_test) ** 2)) if regression else float(model.score(X_test, y_test))
        )
        passes = int(np.max(model.n_iter_))
    return {"scores": scores, "seconds": float(np.median(seconds)), "setting": {"passes": passes}}


def peer_cell(peer: str, data: str, epsilon: float, delta: float, options: argparse.Namespace) -> dict[str, Any] | None:
    """Tune (or take the settings of the fast implementation) and fit."""
    job: dict[str, Any] = {
        "data": splits(data, options.seeds), "epsilon": epsilon, "delta": delta, "seeds": options.seeds,
        "quick": options.quick, "task": "regression" if data == "blogfeedback" else "classification",
        "label_bounds": (-CENTRE, 8.0 - CENTRE),
    }  # fmt: skip
    if options.tune_on == "validation":
        job["tuning"] = tuning_split(data)
    teacher = PEERS[peer].tuned_by
    if teacher:
        known = cached(cell_path(teacher, data, epsilon, delta, options))
        if known is None:
            print(f"{peer} needs the settings of {teacher} first", flush=True)
            return None
        job["setting"] = known["cheap"]
        if data in ("reuters", "blogfeedback"):  # seconds a fit: these libraries know no sparse rows
            job["seeds"] = min(options.seeds, options.seeds_on_large)
    elif not options.quick:  # begin where the search of other cells of this table ended
        found = [cached(cell_path(peer, data, *known, options)) for known in itertools.product(EPSILONS, DELTAS)]
        job["starts"] = [
            {name: value for name, value in row[kind].items() if name != "sigma"}
            for row in found if row for kind in ("setting", "cheap")
        ]  # fmt: skip
    return work(peer, job)


def medians(row: dict[str, Any]) -> np.ndarray:
    """Return the median of the scores, then those of 2,000 bootstrap samples; the same seeds are drawn for all rows."""
    scores = np.asarray(row["scores"])
    drawn = np.random.default_rng(len(scores)).integers(len(scores), size=(2000, len(scores)))
    return np.r_[np.median(scores), np.median(scores[drawn], axis=1)]


def median(row: dict[str, Any]) -> tuple[float, float]:
    """Return the median of the scores and its bootstrap standard error."""
    values = medians(row)
    return float(values[0]), float(np.std(values[1:]))


def as_good(mine: dict[str, Any], other: dict[str, Any]) -> bool:
    """Tell whether we are as good, but for one standard error of the difference (paired: seeds share their split)."""
    gaps = medians(mine) - medians(other)
    return bool(gaps[0] >= -np.std(gaps[1:]))


def words(value: float, error: float) -> str:
    """Return a score as people read it: accuracies in percent, squared errors as they are."""
    if value < -1e3:
        return "useless"
    return f"{100 * value:.2f} ± {100 * error:.2f}" if value >= 0.0 else f"{-value:.4f} ± {error:.4f}"


def table(names: list[str], epsilons: list[float], deltas: list[float], options: argparse.Namespace) -> None:
    """Print what is known, and write it as JSON and markdown."""
    rows, kept = [], []
    for delta, data, epsilon in itertools.product(deltas, names, sorted(epsilons)):
        entries = {name: cached(cell_path(name, data, epsilon, delta, options)) for name in (*PEERS, "ours")}
        known = {name: entry for name, entry in entries.items() if entry}
        if not known:
            continue
        others = {name: median(entry)[0] for name, entry in known.items() if name != "ours"}
        best = max(others, key=lambda name: others[name], default="")
        verdict = ""
        if best and "ours" in known:
            verdict = "yes" if as_good(known["ours"], known[best]) else f"no: {best}"
        texts = (f"{words(*median(entry))}, {entry['seconds']:.2g} s" if entry else "" for entry in entries.values())
        rows.append((data, f"{delta:g}", f"{epsilon:g}", *texts, verdict))
        kept.append({"data": data, "delta": delta, "epsilon": epsilon, "as good": verdict, "results": known})
    head = ("data", "delta", "epsilon", *PEERS, "sottovoce", "as good as the best")
    title = "test accuracy in percent (blogfeedback: mean squared error): median ± standard error, seconds of a fit"
    show(title, head, rows, width=200)
    verdicts = [row[-1] for row in rows if row[-1]]
    summary = (
        "at least as good as the best tuned peer, but for one standard error of the difference: "
        f"{verdicts.count('yes')} of {len(verdicts)}"
    )
    print(summary)
    name = "peers" + ("" if options.tune_on == "validation" else "-tuned-on-test") + ("-quick" if options.quick else "")
    tuned_on = "rows held out of the training part" if options.tune_on == "validation" else "the test set itself"
    (RESULTS / f"{name}.json").write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    lines = "\n".join("| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *rows))
    text = f"{title}\n\n{lines}\n\n{summary}\n\n{NOTES.format(tuned_on=tuned_on)}\n"
    (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")


def speed(options: argparse.Namespace) -> None:
    """Time whole trainings at epsilon 1, delta 1e-5, one thread each, one after the other."""
    os.environ["SOTTOVOCE_NUM_THREADS"] = "1"
    epsilon, delta = 1.0, 1e-5
    repeats = 1 if options.quick else 3
    n = 4_000 if options.quick else 400_000
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((n, 90), dtype=np.float32)
    dense /= np.linalg.norm(dense, axis=1, keepdims=True)
    labels = np.where(dense @ rng.standard_normal(90) + 0.05 * rng.standard_normal(n) > 0.0, 1.0, -1.0)
    X, y, X_test, y_test, _ = parts_for_peers("a9a", 0)
    small = slice(4_000 if options.quick else None)
    rows, kept = [], {}
    for name, (rows_, labels_), tests in (
        ("a9a", (X[small], y[small]), (X_test, y_test)),
        (f"dense {n:,} x 90", (dense, labels), (dense[:1000], labels[:1000])),
    ):
        model = sv.DPLogisticRegression(epsilon=epsilon, delta=delta, data_norm=1.0, classes=[-1.0, 1.0])
        model.fit(rows_, labels_)
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            model.fit(rows_, labels_)
            times.append(time.perf_counter() - start)
        mine, passes = float(np.median(times)), int(np.max(model.n_iter_))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "split.npz"
            write_split(path, rows_, labels_, *tests)
            job = {
                "data": [str(path)], "task": "classification", "epsilon": epsilon, "delta": delta, "seeds": repeats,
                "quick": False, "warm": True,
            }  # fmt: skip
            tuned = cached(FOLDER / f"a9a-{epsilon:g}-{delta:g}-dpsgd.json")
            descent = dict(tuned["cheap"] if tuned else UNTUNED)
            # the dense table: seconds of one epoch, times the number of epochs
            factor = 1 if name == "a9a" else descent["epochs"]
            descent["epochs"] //= factor
            descent.setdefault("sigma", 1.0)  # changes no time
            usual = {**descent, "epochs": 1, "batches": -(-rows_.shape[0] // 256), "usual": True}
            snap = {"constant": 0.3, "regularizer": 1.0, "epochs": passes, "private": False}
            private = {"private": True, "batches": 50, "eta": 1.0, "clip": 1.0, "epochs": 20}
            what = f"{factor * descent['epochs']} epochs of {descent['batches']} batches"
            cases = [
                ("opacus", "opacus", descent, factor, what + (", from one epoch" if factor > 1 else "")),
                (
                    "opacus, usual loader",
                    "opacus",
                    usual,
                    descent["epochs"] * factor,
                    f"{descent['epochs'] * factor} epochs of batches of 256, from one",
                ),
                ("jax-privacy", "jax-privacy", descent, factor, what + (", from one epoch" if factor > 1 else "")),
                ("diffprivlib", "diffprivlib", {"C": 1.0, "intercept": True}, 1, "objective perturbation"),
                ("snapml, private", "snapml", {**snap, **private}, 1, "20 epochs of 50 batches"),
                ("snapml, not private", "snapml", snap, 1, f"{passes} epochs of coordinate descent"),
            ]
            rows.append((name, "sottovoce, default", f"{mine:.3f}", "1.0", f"{passes} passes"))
            kept[f"{name}, sottovoce"] = {"seconds": mine, "passes": passes}
            for title, peer, setting, times_epochs, note in cases:
                if peer not in options.peers:
                    continue
                answer = work(peer, {**job, "setting": setting})
                if answer is None:
                    continue
                seconds = times_epochs * answer["seconds"]
                kept[f"{name}, {title}"] = {"seconds": seconds, "setting": setting, "note": note}
                rows.append((name, title, f"{seconds:.3f}", f"{seconds / mine:.1f}", note))
    show("seconds of a whole training, epsilon = 1, one thread", ("data", "library", "seconds", "ratio", "what"), rows)
    (RESULTS / "peers-speed.json").write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--only", default=None, help="default all; phishing with --quick")
    parser.add_argument("--peers", default=None, help="default all; with --quick those that have an environment")
    parser.add_argument("--epsilons", default=",".join(f"{epsilon:g}" for epsilon in EPSILONS))
    parser.add_argument("--deltas", default=",".join(f"{delta:g}" for delta in DELTAS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--seeds-on-large", type=int, default=3, help="opacus, jax-privacy: reuters and blogfeedback")
    parser.add_argument("--tune-on", choices=("validation", "test"), default="validation")
    parser.add_argument("--ours-only", action="store_true")
    parser.add_argument("--no-ours", action="store_true", help="leave our own fits for later")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--speed", action="store_true")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    if options.quick:
        options.seeds = min(options.seeds, 2)
    options.peers = options.peers.split(",") if options.peers else at_hand() if options.quick else list(PEERS)
    if options.speed:
        speed(options)
        return
    names = options.only.split(",") if options.only else ["phishing"] if options.quick else list(DATA)
    epsilons = [float(text) for text in options.epsilons.split(",")]
    deltas = [float(text) for text in options.deltas.split(",")]
    for delta in () if options.table else deltas:
        for data in names:
            for epsilon in epsilons:
                own = () if options.no_ours else ("ours",)
                for peer in (*own, *(() if options.ours_only else options.peers)):
                    path = cell_path(peer, data, epsilon, delta, options)
                    if path.exists() and not options.ours_only:
                        continue
                    start = time.perf_counter()
                    if peer == "ours":
                        result = ours(data, epsilon, delta, options.seeds)
                    else:
                        result = peer_cell(peer, data, epsilon, delta, options)
                    if result is not None:
                        path.write_text(json.dumps(result) + "\n", encoding="utf-8")
                        print(
                            f"{data} epsilon {epsilon:g} delta {delta:g} {peer}: {words(*median(result))}, "
                            f"{result['seconds']:.3f} s a fit, {time.perf_counter() - start:.0f} s in all", flush=True,
                        )  # fmt: skip
    table(names, epsilons, deltas, options)


if __name__ == "__main__":
    main()
