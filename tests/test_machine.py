"""Freed memory that stays: seen by page faults, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from coldness.machine import keep_freed_memory

ROUNDS = """
import resource, torch
from coldness.machine import keep_freed_memory
assert keep_freed_memory()
def activations():
    for _ in range(20):
        layers = [torch.ones(2**21) for _ in range(4)]
activations()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
activations()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of glibc")
def test_blocks_that_are_made_again_cost_no_page_faults() -> None:
    """20 times 32 MB are 160,000 pages of 4 kB: by default most are touched anew.

    Depending on where the heap begins, a few of the 80 blocks may still be new.
    """
    if not keep_freed_memory():
        pytest.skip("not glibc")
    command = [sys.executable, "-c", ROUNDS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 16_000
