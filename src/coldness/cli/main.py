"""coldness: train, judge and report energy-based models.

    coldness demo                 train two small models and compare them in one report
    coldness recipes              list the recipes that can be trained by name
    coldness doctor RECIPE        look for problems of a recipe before training it
    coldness train RECIPE         train a model, evaluate it and write its report
    coldness pretrain RECIPE      train an encoder of images, without an energy
    coldness detect FILE          find the unusual rows of a table, and say why
    coldness score RUN FILE       score the rows of a file with a trained model
    coldness sample RUN           draw samples from a trained model
    coldness evaluate RUN         evaluate a trained model again; --trust for five plain answers
    coldness compare RUN RUN...   compare trained models side by side
    coldness report RUN [RUN...]  write one page for one or several runs
    coldness sweep RECIPE         train a grid of runs of one recipe, in one table and page
    coldness reproduce STUDY      run a paper's experiments and compare with what it reports

`coldness COMMAND --help` says more. Every recipe field is also a command-line option; index list
entries by position: --contrast.beta 0.9 --sources.0.steps 50.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import import_module

import coldness
from coldness.documents import shortened
from coldness.files import FULL
from coldness.machine import prepare_process
from coldness.signals import name_of, number_of, raising

COMMANDS = (
    "demo",
    "recipes",
    "doctor",
    "train",
    "pretrain",
    "detect",
    "score",
    "sample",
    "evaluate",
    "compare",
    "report",
    "sweep",
    "reproduce",
)


BAD_INPUT, FULL_DISK = 2, 4


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code.

    0 done, 1 warnings of the doctor or failed runs of a study, 2 bad input, 3 diverged,
    4 no room on the disk, 128 + n ended by signal n: 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help"):
        print(__doc__.strip() if __doc__ else "")
        return 0
    if words[0] in ("-V", "--version"):
        print(f"coldness {coldness.__version__}")
        return 0
    if words[0] not in COMMANDS:
        near = get_close_matches(words[0], COMMANDS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(COMMANDS)}"
        return _refuse(f"no command {words[0]!r}; {hint}")
    try:
        prepare_process()
        # Imported only now: --help and --version should not wait for PyTorch.
        run: Callable[[list[str]], int] = import_module(f"coldness.cli.{words[0]}").main
        with raising():
            return run(words[1:])
    except KeyboardInterrupt as error:
        number = number_of(error)
        print(f"coldness: interrupted by {name_of(number)}", file=sys.stderr)
        return 128 + number
    except (RuntimeError, ValueError, OSError) as error:
        code: int | None = getattr(error, "exit_code", None)  # of Diverged, Interrupted, FullDisk
        if code is None and isinstance(error, OSError) and error.errno in FULL:
            code = FULL_DISK
        if code is None and isinstance(error, RuntimeError):
            raise
        return _refuse(str(error), getattr(error, "usage", ""), code or BAD_INPUT)
    except SystemExit as exit_:  # --help of a command
        return int(exit_.code or 0)


def _refuse(reason: str, usage: str = "", code: int = BAD_INPUT) -> int:
    print(f"coldness: {shortened(' '.join(reason.split()))}", file=sys.stderr)
    if usage:
        print(usage, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
