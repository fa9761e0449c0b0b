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
from coldness.machine import prepare_process

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
    "reproduce",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code.

    0 done, 1 warnings of the doctor or failed runs of a study, 2 bad input, 3 diverged,
    130 interrupted.
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
        return run(words[1:])
    except RuntimeError as error:
        code: int | None = getattr(error, "exit_code", None)  # of Diverged and Interrupted
        if code is None:
            raise
        print(f"coldness: {error}", file=sys.stderr)
        return code
    except KeyboardInterrupt:
        print("coldness: interrupted", file=sys.stderr)
        return 130
    except (ValueError, OSError) as error:
        return _refuse(str(error), getattr(error, "usage", ""))
    except SystemExit as exit_:  # --help of a command
        return int(exit_.code or 0)


def _refuse(reason: str, usage: str = "") -> int:
    print(f"coldness: {shortened(' '.join(reason.split()))}", file=sys.stderr)
    if usage:
        print(usage, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
