"""Results of the doctor: checks, and the problems that they found."""

from __future__ import annotations

from dataclasses import dataclass, field

ANATOMY = "Anatomy, practical appendix"
BETA = "beta paper"


@dataclass(frozen=True)
class Finding:
    """A problem, shown as a warning.

    Args:
        cause: name of the problem in one word, for scripts and tests.
        where: the part of the recipe that has it.
        what: the problem with its metrics.
        why: its consequence.
        source: the paper that describes it, or how it was measured.
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
    """One check.

    Args:
        name: in one or two words.
        text: the result in one line, good or bad.
        metrics: behind the result.
        findings: problems; empty if there are none.
    """

    name: str
    text: str
    metrics: dict[str, float] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
