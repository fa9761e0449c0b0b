"""Signals that end a command: Ctrl-C, those of schedulers and of terminals that close.

    SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2      exit code 128 + the number of the signal

`waiting` notes a signal, so that training can finish its iteration, save and stop. `raising`
raises Signalled wherever the program is. A signal that the process was started to ignore (SIGHUP
under nohup, SIGINT in the background of a script) stays ignored, and a handler of the program that
calls coldness stays in force: only default handlers are replaced, and they are put back afterwards.
Outside of the main thread nothing is handled.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
HANDLED = tuple(getattr(signal, name) for name in NAMES if hasattr(signal, name))


class Signalled(KeyboardInterrupt):
    """A signal arrived where nothing waits for it.

    Args:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"interrupted by {name_of(number)}")


class Interrupted(RuntimeError):
    """A signal, such as that of Ctrl-C, ended a run.

    Args:
        message: what was stopped, and whether it is saved.
        number: of the signal.
    """

    model: Any = None
    """The model so far, if raised by `coldness.train`."""

    def __init__(self, message: str, number: int = signal.SIGINT) -> None:
        self.number = number
        super().__init__(message)

    @property
    def exit_code(self) -> int:
        return 128 + self.number


class Waiting:
    """The first signal that arrived, or None; `taken` is set by who acts on it.

    While `at_once` is set, signals raise Signalled and are not noted.
    """

    number: int | None = None
    taken = False
    at_once = False


def name_of(number: int) -> str:
    """SIGTERM and so on."""
    return signal.Signals(number).name


def number_of(error: KeyboardInterrupt) -> int:
    """The signal that a KeyboardInterrupt stands for."""
    return error.number if isinstance(error, Signalled) else signal.SIGINT


@contextmanager
def raising() -> Iterator[None]:
    """Signals raise Signalled inside this context."""

    def handle(number: int, frame: Any) -> None:
        raise Signalled(number)

    with _handled(handle):
        yield


@contextmanager
def waiting() -> Iterator[Waiting]:
    """Signals are noted inside this context; Ctrl-C for the second time raises Signalled.

    A signal that nobody took is raised anew at the end.
    """
    state = Waiting()

    def handle(number: int, frame: Any) -> None:
        if state.at_once or (state.number is not None and number == signal.SIGINT):
            raise Signalled(number)
        state.number = state.number or number

    try:
        with _handled(handle):
            yield state
    finally:
        if state.number is not None and not state.taken:
            signal.raise_signal(state.number)


@contextmanager
def _handled(handle: Callable[[int, Any], None]) -> Iterator[None]:
    """Puts a handler in the place of default ones, and of those of this module."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {}
    try:
        for number in HANDLED:
            now = signal.getsignal(number)
            ours = getattr(now, "__module__", None) == __name__
            if ours or now in (signal.SIG_DFL, signal.default_int_handler):
                before[number] = signal.signal(number, handle)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
