"""coldness: energy-based models whose energies can be trusted.

    import coldness

    model = coldness.train("points", data=array)
    model.log_prob(array), model.sample(1000)
    print(coldness.judge(model, test_points))

Importing coldness imports no torch and changes nothing of the process.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from coldness.version import VERSION

__version__ = VERSION

if TYPE_CHECKING:
    from coldness.guard.policy import Diverged as Diverged
    from coldness.machine import prepare_process as prepare_process
    from coldness.model import Model as Model
    from coldness.model import load as load
    from coldness.pretraining.run import pretrain as pretrain
    from coldness.signals import Interrupted as Interrupted
    from coldness.trainer import train as train
    from coldness.training.recipe import Recipe as Recipe
    from coldness.trust.judgement import Judgement as Judgement
    from coldness.trust.judgement import judge as judge

_WHERE = {
    "Diverged": "coldness.guard.policy",
    "Interrupted": "coldness.signals",
    "Judgement": "coldness.trust.judgement",
    "Model": "coldness.model",
    "Recipe": "coldness.training.recipe",
    "judge": "coldness.trust.judgement",
    "load": "coldness.model",
    "prepare_process": "coldness.machine",
    "pretrain": "coldness.pretraining.run",
    "train": "coldness.trainer",
}

__all__ = ["__version__", *sorted(_WHERE)]


def __getattr__(name: str) -> Any:
    """Imports what is asked for, when it is asked for."""
    if name not in _WHERE:
        raise AttributeError(f"module 'coldness' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
