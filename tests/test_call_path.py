"""The way from the command line to the first step of the optimiser is short enough to follow."""

from __future__ import annotations

import ast
import logging
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NoReturn

import pytest
from torch.optim.optimizer import register_optimizer_step_pre_hook

import coldness
import coldness.cli.train  # imported now, because the profile function slows imports down
from coldness.cli.main import main

ROOT = Path(coldness.__file__).parent
WITHIN = f"{ROOT}{os.sep}"

UPPER_FLOOR = (
    "cli", "doctor", "evaluation", "guard", "report", "runs", "studies", "trainer", "training",
    "trust",
)  # fmt: skip
"""Packages, and a module, whose functions are counted."""

MOST = 35
"""Functions of the upper floor that `coldness train mixture2d` enters before the first step."""


class FirstStep(BaseException):
    """Ends the run; no `except Exception` catches it."""


@cache
def functions(path: Path) -> dict[int, str]:
    """Functions and methods of a file by their first lines; no properties and dunder methods."""
    return dict(_functions(ast.parse(path.read_text()), ""))


def _functions(node: ast.AST, within: str) -> Iterator[tuple[int, str]]:
    for child in ast.iter_child_nodes(node):
        name = within
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{within}{child.name}."
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = [ast.unparse(decorator) for decorator in child.decorator_list]
            is_property = any(d.endswith(("property", ".setter")) for d in decorators)
            is_dunder = child.name.startswith("__") and child.name.endswith("__")
            if not is_property and not is_dunder:
                first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
                yield first, name.removesuffix(".")
        yield from _functions(child, name)


def name_of(code: CodeType) -> str | None:
    """The function that a code object belongs to, if it is counted.

    Class bodies, lambdas, comprehensions and generator expressions are no functions.
    """
    if not code.co_filename.startswith(WITHIN) or code.co_name.startswith("<"):
        return None
    path = Path(code.co_filename)
    where = path.relative_to(ROOT)
    if where.parts[0].removesuffix(".py") not in UPPER_FLOOR:
        return None
    name = functions(path).get(code.co_firstlineno)
    return None if name is None else f"{where} {name}"


def at_import(frame: FrameType) -> bool:
    """Whether a call is made by the body of a module, while `main` imports it."""
    at: FrameType | None = frame
    while at is not None and at.f_code is not main.__code__:
        if at.f_code.co_name == "<module>":
            return True
        at = at.f_back
    return False


def entered(words: list[str]) -> list[str]:
    """Functions that a command enters before the first step of an optimiser, in this order."""
    found: dict[str, None] = {}

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            name = name_of(frame.f_code)
            if name is not None and name not in found and not at_import(frame):
                found[name] = None

    def stop(*_: Any) -> NoReturn:
        raise FirstStep

    before, hook = sys.getprofile(), register_optimizer_step_pre_hook(stop)
    sys.setprofile(profile)
    try:
        with pytest.raises(FirstStep):
            main(words)
    finally:
        sys.setprofile(before)
        hook.remove()
    return list(found)


def test_few_functions_lead_to_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("handlers", "level", "propagate"):  # which the command changes
        log = logging.getLogger("coldness")
        monkeypatch.setattr(log, name, getattr(log, name))
    names = entered(["train", "mixture2d"])
    assert names[0] == "cli/main.py main"
    assert names[-1] == "training/loop.py Training._update"
    assert len(names) <= MOST, "\n".join([f"{len(names)} functions:", *names])
    assert not list(tmp_path.iterdir())  # the first step is that of the trial, which writes nothing


def test_what_counts_as_a_function(tmp_path: Path) -> None:
    path = tmp_path / "example.py"
    path.write_text(
        "class A:\n"
        "    def __init__(self): pass\n"
        "    @property\n"
        "    def value(self): return 1\n"
        "    @staticmethod\n"
        "    def read(): return lambda: [1 for _ in ()]\n"
        "def outer():\n"
        "    def inner(): pass\n"
    )
    assert functions(path) == {5: "A.read", 7: "outer", 8: "outer.inner"}
