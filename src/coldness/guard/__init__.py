"""The guard: watches a run, and rolls it back with milder settings when it diverges."""

from coldness.guard.policy import Diverged, Guard

__all__ = ["Diverged", "Guard"]
