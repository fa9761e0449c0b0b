"""Single flipped bits in files of a run: each is found when the file is read."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import coldness
from campaigns.runs import child, prepare, train
from campaigns.tally import Tally
from coldness.cli.main import main
from coldness.files import BadFile
from coldness.runs.folder import RunFolder
from coldness.runs.reader import read_evaluation
from coldness.tensor_files import load_checkpoint

COUNT, QUICK = 400, 40


def run(count: int, seed: int, folder: Path) -> Tally:
    """Flips `count` bits, one at a time, in turn in every kind of file."""
    prepare()
    tally, rng, out = Tally("flips"), random.Random(seed), folder / "run"
    made = child(lambda: main(train(out)), folder / "log.txt")
    if made.code:
        raise RuntimeError(f"the run without faults failed: {made.said}")
    readers: dict[Path, Callable[[Path], object]] = {
        out / "model" / "weights.safetensors": lambda path: coldness.load(out),
        out / "model" / "model.yaml": lambda path: coldness.load(out),
        out / "evaluation.npz": lambda path: read_evaluation(out),
        out / "metrics.json": lambda path: RunFolder(out).metrics(),
    }
    readers |= dict.fromkeys(sorted((out / "checkpoints").iterdir()), load_checkpoint)
    for k in range(count):
        path, read = list(readers.items())[k % len(readers)]
        before = path.read_bytes()
        bit = rng.randrange(8 * len(before))
        damaged = bytearray(before)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        begin = time.perf_counter()
        finding = f"{path.name}: bit {bit} of {8 * len(before)} was not noticed"
        try:
            read(path)
        except BadFile:
            finding = ""
        except Exception as error:
            finding = f"{path.name}: bit {bit} of {8 * len(before)}: {type(error).__name__}"
        tally.count(finding, time.perf_counter() - begin)
        path.write_bytes(before)
    return tally
