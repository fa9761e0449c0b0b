"""Mutated recipes, read as `coldness train` reads them; a fourth is built, every 20th examined.

A recipe does harm if it ends in anything but the documented errors, in more than one line, in more
than SLOW seconds, or with a file that was not there before. Those that are built have small
numbers. Hypothesis makes the choices, so that findings do not come from one distribution alone.
"""

from __future__ import annotations

import contextlib
import io
import time
import traceback
from pathlib import Path
from random import Random

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from campaigns.mutations import mutated
from campaigns.tally import Tally
from coldness.cli.main import main
from coldness.cli.options import OptionError, read_recipe
from coldness.cli.train import parser
from coldness.documents import SHOWN
from coldness.training.recipe import RecipeError

COUNT, QUICK = 2000, 200

BUILT, EXAMINED = 4, 20
SLOW = 5.0
"""Seconds for reading and building."""


def run(count: int, seed: int, folder: Path) -> Tally:
    tally = Tally("recipes")
    path = folder / "recipe.yaml"

    @seeded(seed)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(1, BUILT), st.randoms(use_true_random=False))
    def each(kind: int, random: Random) -> None:
        built = kind == BUILT
        text = mutated(random, tame=built)
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
        _try(path, built, tally)

    with contextlib.chdir(folder):
        each()
    return tally


def _try(path: Path, built: bool, tally: Tally) -> None:
    """Reads the recipe in the file, and counts what came of it."""
    k, begin = tally.tried, time.perf_counter()
    finding = _read(path, built)
    seconds = time.perf_counter() - begin
    if not finding and seconds > SLOW:
        finding = f"took {seconds:.1f} s"
    if not finding and k % EXAMINED == 0:
        finding = _examined(path)
    others = sorted(p.name for p in path.parent.iterdir() if p != path)
    if others:
        finding = finding or f"wrote {', '.join(others)}"
    tally.count(f"recipe {k}: {finding}" if finding else "", seconds)


def _read(path: Path, built: bool) -> str:
    """What harm reading did, and building the parts; empty for none."""
    try:
        _, recipe = read_recipe(parser(), [str(path)])
        if built:
            recipe.parts()
    except (RecipeError, OptionError) as error:
        return _said(str(error))
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {where.name}, line {where.lineno}: {str(error)[:80]}"
    return ""


def _examined(path: Path) -> str:
    """What harm `coldness doctor` did."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            code = main(["doctor", str(path), "--json"])
        except Exception as error:
            return f"doctor: {type(error).__name__}: {str(error)[:80]}"
    if code not in (0, 1, 2):
        return f"doctor: exit code {code}"
    return _said(said.getvalue().strip()) if code == 2 else ""


def _said(message: str) -> str:
    if "\n" in message:
        return f"a message of several lines: {message[:80]!r}"
    if len(message) > SHOWN + len("coldness: "):
        return f"a message of {len(message)} characters"
    return ""
