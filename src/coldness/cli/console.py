"""What all commands share: where they print, and the log lines of the library."""

from __future__ import annotations

import logging

from rich.console import Console
from rich.logging import RichHandler

from coldness.progress import console

output = Console(highlight=False, soft_wrap=True)
"""For results; what people read while they wait goes to stderr."""

__all__ = ["console", "output", "show_log_lines"]


def show_log_lines() -> None:
    """Lines that the library logs (compilation above all) appear above the progress bar."""
    handler = RichHandler(console=console, show_time=False, show_path=False, show_level=False)
    log = logging.getLogger("coldness")
    log.handlers = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False
