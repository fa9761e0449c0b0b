"""What came of a campaign: how many faults were tried, and how many of them did no harm."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Tally:
    """The result of one campaign.

    Args:
        name: of the campaign.
        tried: number of faults.
        survived: number of them that did no harm.
        findings: what did harm, in one line each; empty if nothing was lost.
        slowest: seconds that the slowest of them took.
    """

    name: str
    tried: int = 0
    survived: int = 0
    findings: list[str] = field(default_factory=list)
    slowest: float = 0.0

    @property
    def lost(self) -> int:
        """Number of faults that did harm."""
        return self.tried - self.survived

    def count(self, finding: str, seconds: float = 0.0) -> None:
        """Counts one fault; `finding` says what harm it did, empty for none."""
        self.tried += 1
        self.slowest = max(self.slowest, seconds)
        if finding:
            self.findings.append(finding)
        else:
            self.survived += 1
