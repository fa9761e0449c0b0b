"""What the documentation shows runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{k}")
    for page in PAGES
    for k, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_python_in_the_documentation_runs(block: str) -> None:
    exec(compile(block, "documentation", "exec", dont_inherit=True), {"__name__": "documentation"})


def test_commands_in_the_documentation_exist() -> None:
    from coldness.cli.main import COMMANDS

    for page in PAGES:
        for command in re.findall(r"^coldness (\w+)", page.read_text(), re.MULTILINE):
            assert command in COMMANDS, page.name


def test_the_readme_has_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert "pip install -c constraints.txt . && coldness demo" in text
    assert 'pip install -c constraints.txt ".[test]" && pytest' in text
