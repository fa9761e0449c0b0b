"""`python -m benchmarks.tables FOLDER`: densities and anomaly scores of tables, against the usual.

FOLDER holds files .npz with X (N, D) and y (1 for anomalies). Three parts, of which `--part` names
one:

    detection   AUROC and average precision: train on a random half of the normal rows, standardised
                on them; test on the other half and all anomalies
    density     mean log-likelihood of held-out normal rows, in nats and in standardised units: the
                same halves, and scikit-learn's breast cancer and wine
    known       Kullback-Leibler divergence to the truth, of 5,000 points of two densities in 20-D

All methods see the same columns: constant ones, and those that are linear combinations of others,
are left out by the training half. Where nats are counted, columns in which one value makes up more
than ATOM of the rows get uniform noise, the same for all methods: nats are unbounded otherwise. Its
width is the median gap between neighbouring values, at least LEAST_WIDTH standard deviations.

Every result is appended to a CSV file; results that are there are not computed again. Seconds are
those of the processor for fitting and scoring.
"""

from __future__ import annotations

import argparse
import csv
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import scipy.linalg
import scipy.special
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from benchmarks.table_methods import DENSITIES, DETECTORS
from coldness.machine import threads

Rows = NDArray[np.float64]
Split = tuple[Rows, Rows, NDArray[np.int64]]
"""Rows to train on, rows to test on, and which of the latter are anomalies."""

ATOM, LEAST_WIDTH = 0.01, 0.05
COLLINEAR = 1e-3
"""A column is left out if less than this fraction of its standard deviation does not follow from
the columns before it."""

KNOWN_POINTS, KNOWN_TEST, KNOWN_DIMENSIONS = 5000, 20_000, 20

FIELDS = (
    "part", "set", "method", "seed", "rows", "columns", "auroc", "ap", "nats", "kl",
    "seconds", "note",
)  # fmt: skip

Result = dict[str, str]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables")
    parser.add_argument("folder", type=Path, help="folder of .npz files with X and y")
    parser.add_argument("--part", choices=PARTS, nargs="+", default=list(PARTS), help="default all")
    parser.add_argument("--sets", nargs="+", default=None, metavar="SET", help="default all")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="default 3")
    parser.add_argument("--methods", nargs="+", default=None, metavar="M", help="default all")
    parser.add_argument("--csv", type=Path, default=Path("tables.csv"), help="default tables.csv")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module="sklearn")
    logging.getLogger("coldness").setLevel(logging.ERROR)
    results = _read(options.csv)
    with threads(1):
        for part in options.part:
            for seed in range(options.seeds):
                for name in PARTS[part](options.folder):
                    if options.sets is None or name in options.sets:
                        _run(part, name, seed, options, results)
            print(_table(part, results), flush=True)


def _run(
    part: str, name: str, seed: int, options: argparse.Namespace, results: list[Result]
) -> None:
    """All methods on one set with one seed, except those whose results are there."""
    done = {(r["part"], r["set"], r["method"], r["seed"]) for r in results}
    known = DETECTORS if part == "detection" else DENSITIES
    for method in options.methods or known:
        if method not in known or (part, name, method, str(seed)) in done:
            continue
        train, test, anomalous = SPLITS[part](options.folder, name, seed)
        begin = time.process_time()
        found, note = known[method](train, test, seed)
        seconds = time.process_time() - begin
        result = dict.fromkeys(FIELDS, "") | {
            "part": part, "set": name, "method": method, "seed": str(seed), "note": note,
            "rows": str(len(train)), "columns": str(train.shape[1]), "seconds": f"{seconds:.1f}",
        }  # fmt: skip
        if part == "detection":
            result["auroc"] = f"{roc_auc_score(anomalous, -found):.4f}"
            result["ap"] = f"{average_precision_score(anomalous, -found):.4f}"
        elif part == "density":
            result["nats"] = f"{found.mean():.4f}"
        else:
            result["kl"] = f"{(_truth(name, test) - found).mean():.4f}"
        results.append(result)
        _append(options.csv, result)
        shown = result["auroc"] or result["nats"] or result["kl"]
        print(f"{part} {name} seed {seed} {method}: {shown} ({seconds:.0f} s) {note}", flush=True)


# Sets.


def _files(folder: Path) -> Iterator[str]:
    return (path.stem for path in sorted(folder.glob("*.npz")))


def _tables(folder: Path) -> Iterator[str]:
    yield from _files(folder)
    yield from ("breast_cancer", "wine")


def _laws(folder: Path) -> Iterator[str]:
    yield from ("twonorm", "mixture20")


PARTS: dict[str, Callable[[Path], Iterator[str]]] = {
    "detection": _files, "density": _tables, "known": _laws,
}  # fmt: skip


def _read_set(folder: Path, name: str) -> tuple[Rows, NDArray[np.int64]]:
    if name in ("breast_cancer", "wine"):
        import sklearn.datasets

        x = getattr(sklearn.datasets, f"load_{name}")().data
        return x.astype(np.float64), np.zeros(len(x), np.int64)
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        return file["X"].astype(np.float64), file["y"].astype(np.int64)


def _detection(folder: Path, name: str, seed: int) -> Split:
    return _split(*_read_set(folder, name), np.random.default_rng(seed))


def _density(folder: Path, name: str, seed: int) -> Split:
    x, y = _read_set(folder, name)
    generator = np.random.default_rng(seed)
    return _split(_jittered(x[y == 0], generator), y[y == 0], generator)


def _known(folder: Path, name: str, seed: int) -> Split:
    generator = np.random.default_rng(seed)
    count = KNOWN_POINTS + KNOWN_TEST
    means, std = LAWS[name]
    mode = generator.integers(len(means), size=count)
    x = means[mode] + std * generator.normal(size=(count, KNOWN_DIMENSIONS))
    return x[:KNOWN_POINTS], x[KNOWN_POINTS:], np.zeros(KNOWN_TEST, np.int64)


SPLITS = {"detection": _detection, "density": _density, "known": _known}


def _jittered(x: Rows, generator: np.random.Generator) -> Rows:
    """With noise on columns that have atoms."""
    x = x.copy()
    for column in x.T:
        values, counts = np.unique(column, return_counts=True)
        if len(values) > 1 and counts.max() > ATOM * len(column):
            width = max(float(np.median(np.diff(values))), LEAST_WIDTH * float(column.std()))
            column += width * (generator.random(len(column)) - 0.5)
    return x


def _split(x: Rows, y: NDArray[np.int64], generator: np.random.Generator) -> Split:
    """Half of the normal rows, and the rest, both standardised on the former."""
    normal = generator.permutation(np.flatnonzero(y == 0))
    half = len(normal) // 2
    train = x[normal[:half]]
    test = np.concatenate([x[normal[half:]], x[y == 1]])
    anomalous = np.concatenate([np.zeros(len(normal) - half, np.int64), y[y == 1]])
    varies = train.std(0) > 1e-9 * np.abs(train).max(0)
    train, test = train[:, varies], test[:, varies]
    mean, std = train.mean(0), train.std(0)
    train, test = (train - mean) / std, (test - mean) / std
    kept = _independent(train)
    return train[:, kept], test[:, kept], anomalous


def _independent(x: Rows) -> NDArray[np.int64]:
    """Columns that do not follow from earlier ones."""
    (r,) = scipy.linalg.qr(x, mode="r")
    own = np.abs(np.diag(r)) / np.sqrt(len(x))
    return np.flatnonzero(own > COLLINEAR)


# Known densities.

_APART = 2 / np.sqrt(KNOWN_DIMENSIONS)
LAWS: dict[str, tuple[Rows, float]] = {
    "twonorm": (np.array([[_APART], [-_APART]]) * np.ones(KNOWN_DIMENSIONS), 1.0),
    "mixture20": (np.random.default_rng(12345).normal(size=(8, KNOWN_DIMENSIONS)), 0.5),
}
"""Means and standard deviation of mixtures of Gaussians with equal weights: twonorm (Breiman, 1996)
and eight modes of standard deviation 0.5 at random means of unit scale."""


def _truth(name: str, x: Rows) -> Rows:
    """log p(x) of a known density."""
    means, std = LAWS[name]
    squares = ((x[:, None] - means) ** 2).sum(2) / (2 * std**2)
    constant = KNOWN_DIMENSIONS * (np.log(std) + np.log(2 * np.pi) / 2) + np.log(len(means))
    found: Rows = scipy.special.logsumexp(-squares, axis=1) - constant
    return found


# Results.


def _read(path: Path) -> list[Result]:
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _append(path: Path, result: Result) -> None:
    new = not path.is_file()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if new:
            writer.writeheader()
        writer.writerow(result)


def _table(part: str, results: list[Result]) -> str:
    """Means over seeds, as Markdown: a row per method, a column per set."""
    lines = []
    for value in {"detection": ("auroc", "ap"), "density": ("nats",), "known": ("kl",)}[part]:
        own = [r for r in results if r["part"] == part]
        sets = list(dict.fromkeys(r["set"] for r in own))
        lines += [f"\n{part}: {value}, mean over seeds\n"]
        lines += [f"| method | {' | '.join(sets)} | mean | seconds |"]
        lines += ["|---" * (len(sets) + 3) + "|"]
        for method in dict.fromkeys(r["method"] for r in own):
            cells = [_mean(own, name, method, value) for name in sets]
            seconds = np.mean([float(r["seconds"]) for r in own if r["method"] == method])
            texts = [f"{c:.3f}" for c in [*cells, float(np.mean(cells))]]
            lines += [f"| {method} | {' | '.join(texts)} | {seconds:.0f} |"]
    return "\n".join(lines)


def _mean(results: list[Result], name: str, method: str, value: str) -> float:
    found = [float(r[value]) for r in results if (r["set"], r["method"]) == (name, method)]
    return float(np.mean(found)) if found else float("nan")


if __name__ == "__main__":
    main()
