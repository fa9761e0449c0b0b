"""Shared by all tests: one thread; and curves that are not drawn where nobody looks at them."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
import torch

from coldness.report.figures import Curve

LOOK_AT_NO_CURVES = (
    "test_cli.py", "test_compare.py", "test_points.py", "test_rows.py", "test_studies.py",
    "test_table.py",
)  # fmt: skip
"""Tests that make whole pages and look at their words; a page has 30 curves of 0.25 s."""

BLANK = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6"
    "kgAAAABJRU5ErkJggg=="
)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _no_curves(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.path.name in LOOK_AT_NO_CURVES:
        monkeypatch.setattr(Curve, "render", lambda *_: BLANK)


@pytest.fixture
def heeds_ctrl_c() -> Iterator[None]:
    """SIGINT as in a terminal, also where pytest runs in the background and ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
