"""What the doctor says: findings, which speak against training, and the checks they come from."""

from __future__ import annotations

from dataclasses import dataclass, field

ANATOMY = "Anatomy, practical appendix"
BETA = "beta paper"


@dataclass(frozen=True)
class Finding:
    """Something that speaks against training.

    Args:
        cause: in one word, for scripts and tests.
        where: which part of the recipe.
        what: was found, with its metrics.
        why: it goes wrong.
        source: paper that says so, or how it was measured.
        advice: what to do.
    """

    cause: str
    where: str
    what: str
    why: str
    source: str
    advice: str

    @property
    def line(self) -> str:
        return f"{self.where}: {self.what}: {self.why} ({self.source}); {self.advice}"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Args:
        name: in one or two words.
        text: what was found, good or bad, in a line.
        metrics: behind it.
        findings: what speaks against training; empty where nothing does.
    """

    name: str
    text: str
    metrics: dict[str, float] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
