"""Damaged run folders: every command ends in one line or in order, and writes nowhere else.

A copy of a run is damaged in one to three places: a file or folder is cut, emptied, swapped for
another, replaced by noise, by a folder, a pipe or a link to a file outside, or taken away. Then one
of the commands works on it. The files outside must be as they were.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from campaigns.runs import TRACEBACK, child, prepare, quietly, train
from campaigns.tally import Tally
from coldness.cli.main import main

COUNT, QUICK = 500, 8
CODES = (0, 2, 3)
LONGEST = 60.0
"""Seconds that a command may take."""

Damage = Callable[[Path, random.Random, Path], None]


def run(count: int, seed: int, folder: Path) -> Tally:
    """Damages `count` copies of a run."""
    prepare()
    tally, rng, log = Tally("folders"), random.Random(seed), folder / "log.txt"
    whole, outside = folder / "whole", folder / "outside"
    made = child(lambda: main(train(whole)), log)
    if made.code:
        raise RuntimeError(f"the run without damage failed: {made.said}")
    places = [p.relative_to(whole) for p in sorted(whole.rglob("*"))]
    for _ in range(count):
        copy = folder / "run"
        shutil.copytree(whole, copy)
        _fill(outside)
        before = _contents(outside)
        said = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            place, damage = rng.choice(places), rng.choice(DAMAGES)
            if os.path.lexists(copy / place):
                damage(copy / place, rng, outside)
                said.append(f"{damage.__name__.removeprefix('_')} {place}")
        words = _words(rng, copy, whole, folder)
        begin = time.perf_counter()
        code, text = quietly(words)
        seconds = time.perf_counter() - begin
        finding = ""
        if code == TRACEBACK:
            finding = text.strip().splitlines()[-1]
        elif code not in CODES:
            finding = f"exit code {code}: {text[-200:]}"
        elif _contents(outside) != before:
            finding = "wrote outside"
        elif seconds > LONGEST:
            finding = f"took {seconds:.0f} s"
        where = f"{words[0]} after {', '.join(said)}"
        tally.count(f"{where}: {finding}" if finding else "", seconds)
        shutil.rmtree(copy, ignore_errors=True)
    return tally


def _words(rng: random.Random, copy: Path, whole: Path, folder: Path) -> list[str]:
    return rng.choice(
        [
            ["report", str(copy)],
            ["evaluate", str(copy), "--trust"],
            ["evaluate", str(copy), "--samples=50"],
            ["sample", str(copy), "--n=2", f"--out={folder / 's.npz'}", "--overwrite"],
            ["compare", str(copy), str(whole)],
            train(copy, "--resume"),
            train(copy, "--resume-from=40"),
            train(copy, "--overwrite", "--iterations=20"),
        ]
    )


def _fill(outside: Path) -> None:
    """Files and folders that links lead to."""
    shutil.rmtree(outside, ignore_errors=True)
    (outside / "folder").mkdir(parents=True)
    (outside / "victim.txt").write_text("precious\n" * 100)
    (outside / "folder" / "victim.ckpt").write_text("precious\n" * 100)
    (outside / "folder" / "good-0-20.ckpt").write_text("precious\n" * 100)


def _contents(outside: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() if p.is_file() else b"" for p in sorted(outside.rglob("*"))}


def _remove(path: Path, rng: random.Random, outside: Path) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _cut(path: Path, rng: random.Random, outside: Path) -> None:
    if path.is_file():
        contents = path.read_bytes()
        path.write_bytes(contents[: rng.randrange(len(contents) + 1)])


def _empty(path: Path, rng: random.Random, outside: Path) -> None:
    _remove(path, rng, outside)
    path.touch()


def _noise(path: Path, rng: random.Random, outside: Path) -> None:
    _remove(path, rng, outside)
    path.write_bytes(rng.randbytes(1000))


def _scramble(path: Path, rng: random.Random, outside: Path) -> None:
    """Changes some bytes."""
    if path.is_file() and path.stat().st_size:
        contents = bytearray(path.read_bytes())
        for _ in range(rng.randint(1, 20)):
            contents[rng.randrange(len(contents))] = rng.randrange(256)
        path.write_bytes(contents)


def _swap(path: Path, rng: random.Random, outside: Path) -> None:
    """Puts another file of the run in its place."""
    others = [p for p in sorted(path.parent.rglob("*")) if p.is_file() and p != path]
    if others and path.is_file():
        path.write_bytes(rng.choice(others).read_bytes())


def _folder(path: Path, rng: random.Random, outside: Path) -> None:
    _remove(path, rng, outside)
    path.mkdir()


def _pipe(path: Path, rng: random.Random, outside: Path) -> None:
    _remove(path, rng, outside)
    os.mkfifo(path)


def _link(path: Path, rng: random.Random, outside: Path) -> None:
    to = outside / ("folder" if path.is_dir() else rng.choice(("victim.txt", "nothing.txt")))
    _remove(path, rng, outside)
    path.symlink_to(to)


def _partial_link(path: Path, rng: random.Random, outside: Path) -> None:
    """A link where writers of 0.9 put their temporary file."""
    beside = path.with_name(f"{path.name}.partial")
    if path.parent.is_dir() and not os.path.lexists(beside):
        beside.symlink_to(outside / "victim.txt")


def _other_types(path: Path, rng: random.Random, outside: Path) -> None:
    """Text of another type: what a careless edit leaves."""
    if path.is_file():
        texts = ("[]", "5", '"text"', "null", "{}", "a: [1, {b: c}]", "x,y\n1,2")
        path.write_text(rng.choice(texts))


DAMAGES: tuple[Damage, ...] = (
    _remove, _cut, _empty, _noise, _scramble, _swap, _folder, _pipe, _link, _partial_link,
    _other_types,
)  # fmt: skip
