"""The documentation is true of the code: its commands parse, its YAML is read, its Python runs.

Commands are parsed with the real parser of the command they name, and are not run: an option, a
field, a recipe or a study that does not exist makes a test fail. A Python block is executed unless
`<!-- fragment -->` stands on the line before it; a fragment is only compiled.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import yaml

from coldness.cli import recipes, sweep
from coldness.cli.main import COMMANDS
from coldness.cli.options import read_recipe
from coldness.studies import read_study
from coldness.training.recipe import packaged

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FRAGMENT = "<!-- fragment -->\n"
PLACEHOLDERS = {
    "RECIPE": "mixture2d", "STUDY": "beta-densities", "NAME": "mixture2d", "FILE": "my.npy",
    "RUN": "runs/a", "DIR": "runs/b", "...": "my.npy",
}  # fmt: skip
"""What stands for anything in the documentation, and something that it may stand for."""

# Reading the pages.


class Block(NamedTuple):
    """A fenced block of a page."""

    place: str
    language: str
    text: str
    fragment: bool


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for found in re.finditer(r"^```(.*)\n([\s\S]*?)^```$", text, re.MULTILINE):
        line = text.count("\n", 0, found.start()) + 1
        fragment = text[: found.start()].endswith(FRAGMENT)
        yield Block(f"{page.name}:{line}", found[1], found[2], fragment)


def commands_of(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Place and arguments of every `coldness ...`, in bash blocks and in code within sentences."""
    for block in blocks_of(page):
        if block.language == "bash":
            for line in block.text.replace("\\\n", " ").splitlines():
                yield from ((block.place, words) for words in _commands(line))
    prose = re.sub(r"^```[\s\S]*?^```$", "", page.read_text(), flags=re.MULTILINE)
    for span in re.findall(r"`([^`]+)`", prose):
        for words in _commands(span):
            if words[1:] not in ([], ["..."]):  # a command by its name alone
                yield page.name, words


def _commands(line: str) -> Iterator[list[str]]:
    """The arguments of each coldness in a line of shell, without redirections and comments."""
    if "coldness" not in line:
        return
    for part in re.split(r"&&|;", re.split(r"\s#", line)[0]):
        words = shlex.split(part.split(">")[0])
        if words[:1] == ["coldness"] and len(words) > 1:
            yield words[1:]


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
FOUND = {tuple(words): place for page in PAGES for place, words in commands_of(page)}


def of(language: str) -> list[Any]:
    return [pytest.param(b, id=b.place) for b in BLOCKS if b.language == language]


# Parsing a command.


def parse_command(words: Sequence[str]) -> None:
    """Parses the arguments of `coldness`, without running the command; raises where they are wrong.

    The one place that knows how commands are parsed.
    """
    command, *rest = words
    if command not in COMMANDS:
        raise ValueError(f"no command {command!r}")
    if command == "recipes":  # it only prints
        recipes.main(rest)
        return
    parser = import_module(f"coldness.cli.{command}").parser()
    if command in ("train", "doctor", "pretrain", "sweep"):
        given, recipe = read_recipe(parser, rest)
        if command == "sweep":
            sweep.study_of(recipe.name, sweep.varied(given.vary), given.overrides)
        return
    given = parser.read(rest) if rest != ["--list"] else parser.parse_args(rest)
    if command == "reproduce" and given.study is not None:
        read_study(given.study)


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of their own that users name in the documentation."""
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal(size=(200, 2))
    np.save("my.npy", x)
    np.savetxt("my.csv", x, delimiter=",", header="height,weight", comments="")
    Path("my.yaml").write_text(packaged()["mixture2d"].read_text())
    study = next(b.text for b in BLOCKS if b.language == "yaml" and "blocks:" in b.text)
    Path("my-study.yaml").write_text(study)
    return tmp_path


# Tests.


def test_every_block_names_its_language() -> None:
    """So that none escapes the tests below."""
    assert {b.language for b in BLOCKS} <= {"bash", "python", "yaml", "text"}
    assert len(of("python")) >= 6
    assert len(FOUND) >= 50
    assert {words[0] for words in FOUND} == set(COMMANDS)


@pytest.mark.parametrize(
    "words", [pytest.param(w, id=f"{place} {' '.join(w)}") for w, place in FOUND.items()]
)
def test_commands_in_the_documentation_parse(words: tuple[str, ...], user: Path) -> None:
    pattern = "|".join(map(re.escape, PLACEHOLDERS))
    parse_command(
        [re.sub(rf"(?<!\w)({pattern})(?!\w)", lambda m: PLACEHOLDERS[m[0]], w) for w in words]
    )


@pytest.mark.parametrize(
    "line",
    [
        "trian mixture2d",
        "train mixtured2",
        "train mixture2d --contrast.bta 0.5",
        "train mixture2d --contrast.beta half",
        "train mixture2d --sources.0.stps 50",
        "train mixture2d --sources.3.steps 50",
        "train mixture2d --sources.0.kernel HCM",
        "train mixture2d --evaluation.long_step 5",
        "train mixture2d --resum",
        "doctor rings2d --jason",
        "sample runs/a --setps 2000",
        "evaluate runs/a --turst",
        "compare",
        "report runs/a --outt both.html",
        "reproduce beta-density --quick",
        "reproduce beta-densities --fast",
        "recipes --shwo mixture2d",
        "recipes --show mixtured2",
        "demo --itreations 10",
    ],
)
def test_commands_that_do_not_exist_are_found(line: str, user: Path) -> None:
    """The test of commands has power: what a slip of the pen gives makes it fail."""
    with pytest.raises((ValueError, argparse.ArgumentError)):
        parse_command(line.split())


@pytest.mark.parametrize("block", of("yaml"))
def test_yaml_in_the_documentation_is_read(block: Block, user: Path) -> None:
    """A study, a recipe, or some fields of one."""
    path, text = user / "shown.yaml", yaml.safe_load(block.text)
    if "blocks" in text:
        path.write_text(block.text)
        parse_command(["reproduce", str(path)])
        return
    if "base" not in text:
        text = {**yaml.safe_load(packaged()["mixture2d"].read_text()), **text}
    path.write_text(yaml.safe_dump(text))
    parse_command(["train", str(path)])


@pytest.mark.parametrize("block", of("python"))
def test_python_in_the_documentation_runs(block: Block, user: Path) -> None:
    code = compile(block.text, block.place, "exec", dont_inherit=True)
    if not block.fragment:
        exec(code, {"__name__": "documentation"})


@pytest.mark.parametrize("name", [name for name in packaged() if name.startswith("failures/")])
def test_what_makes_a_failing_recipe_healthy_parses(name: str, user: Path) -> None:
    healthy = re.search(r"^# Healthy: ([^(\n]*)", packaged()[name].read_text(), re.MULTILINE)
    assert healthy is not None
    parse_command(["train", name, *healthy[1].split()])


def test_links_in_the_documentation_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            name, _, anchor = target.partition("#")
            if name.startswith("http"):
                continue
            file = page.parent / name if name else page
            assert file.is_file(), f"{page.name}: {target}"
            assert not anchor or anchor in _anchors(file), f"{page.name}: {target}"


def _anchors(page: Path) -> set[str]:
    """Of the headings, as Markdown makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", h).strip().lower().replace(" ", "-") for h in headings}


def test_the_readme_has_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert "pip install -c constraints.txt . && coldness demo" in text
    assert 'pip install -c constraints.txt ".[test]" && pytest' in text
