"""The house: no part knows another part's class, no function is too long to read.

Which package may import which is checked by import-linter (pyproject.toml) in CI.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import coldness

ROOT = Path(coldness.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

PARTS = ("chains", "data", "energies", "guard", "kernels", "nets", "objectives", "schedules")
"""Packages, and a module, whose classes a recipe names. Who wants to know what a part can do asks
the part; `isinstance` on their classes stays inside of the package that defines them."""

LONGEST = 79
"""Lines of a function."""


def imported(tree: ast.AST) -> dict[str, str]:
    """Names that a module has from packages of parts, and from which."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("coldness."):
            package = str(node.module).split(".")[1]
            if package in PARTS:
                found |= {alias.asname or alias.name: package for alias in node.names}
    return found


def named(node: ast.expr) -> Iterator[str]:
    """Classes that the second argument of isinstance may be."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr


def offences(path: Path, text: str) -> list[str]:
    """Calls of isinstance and issubclass on classes of parts of other packages."""
    tree = ast.parse(text)
    parts = imported(tree)
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    return [
        f"{path.relative_to(ROOT)}:{call.lineno} asks whether something is a {name}"
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id in ("isinstance", "issubclass")
        for name in named(call.args[1])
        if name in parts and parts[name] != own
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_part_is_asked_for_its_class(path: Path) -> None:
    assert offences(path, path.read_text()) == []


def test_such_a_question_would_be_found() -> None:
    text = "from coldness.chains import Bank\nx = isinstance(y, int | Bank)\n"
    assert len(offences(ROOT / "evaluation" / "new.py", text)) == 1
    assert offences(ROOT / "chains" / "new.py", text) == []


def test_functions_are_short_enough_to_read() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {size} lines"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (size := (node.end_lineno or 0) - node.lineno + 1) > LONGEST
    ]
    assert long == []
