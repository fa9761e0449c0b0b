"""coldness: train, judge and report energy-based models.

    coldness demo                 train two small models and open the door to everything else
    coldness recipes              what can be trained
    coldness doctor RECIPE        what speaks against a recipe, before training
    coldness train RECIPE         train, evaluate and report
    coldness sample RUN           draw samples from a trained model
    coldness evaluate RUN         judge a trained model again; --trust for five plain answers
    coldness compare RUN RUN...   trained models side by side
    coldness report RUN [RUN...]  one page for one or several runs
    coldness reproduce STUDY      a paper's experiments, beside what it reports

`coldness COMMAND --help` says more. Every field of a recipe is an option: --contrast.beta 0.9
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

import coldness

COMMANDS = (
    "demo",
    "recipes",
    "doctor",
    "train",
    "sample",
    "evaluate",
    "compare",
    "report",
    "reproduce",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; gives its exit code.

    0 done, 1 warnings of the doctor or runs of a study that failed, 2 bad input, 3 diverged,
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
        return _refuse(f"no command {words[0]!r}; there are {', '.join(COMMANDS)}")
    try:
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
    except (ValueError, OSError, argparse.ArgumentError) as error:
        return _refuse(str(error))
    except SystemExit as exit_:  # --help of a command's parser
        return int(exit_.code or 0)


def _refuse(reason: str) -> int:
    print(f"coldness: {' '.join(reason.split())}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
