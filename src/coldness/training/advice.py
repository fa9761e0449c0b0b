"""Advice after a rescue that repeats: which settings to change, in one sentence with values.

The guard's relief is temporary. If the problem returns each time that the original settings are
restored, the run needs other settings. Those of the relief in force are known to work.
"""

from __future__ import annotations

from dataclasses import replace

from coldness.guard.remedies import Cause, Relief
from coldness.schedules import name_or_value
from coldness.training.effective import effective
from coldness.training.settings import Settings


def advice(s: Settings, relief: Relief, rate: float, t: int) -> str:
    """The sentence; empty if the relief changes no settings.

    Such as: Set optimiser.lr to 0.0001 (it is 0.001): the run recovered only with a learning rate
    0.1 times as large.

    Args:
        s: settings of the run.
        relief: under which it recovered.
        rate: learning rate of the optimiser, without schedule and relief.
        t: the present iteration, at which schedules are read.
    """
    changes = _changes(s, relief, rate, t)
    if not changes:
        return ""
    whole = " and ".join(f"{name} to {to} (it is {now})" for name, (now, to) in changes.items())
    why = "these" if len(changes) > 1 else "this"
    if set(changes) == {"optimiser.lr"}:
        why = f"{relief.rate:.3g} times its learning rate"
    return f"Set {whole}: the run recovered only with {why}."


def first_change(s: Settings, cause: Cause, rate: float) -> str:
    """The setting to change first where no remedy helped, with its value.

    Args:
        s: settings of the run.
        cause: of the last alarm.
        rate: learning rate of the optimiser, without schedule and relief.
    """
    step = f"sources.0.kernel.step_size ({s.sources[0].kernel.step_size:.3g})"
    if cause == "saturation":
        return f"lower {step} first, then optimiser.lr ({rate:.3g})"
    if cause == "starvation":
        step = "let chains start nearer to the data (sources.0.start)"
    return f"lower optimiser.lr ({rate:.3g}) first, then {step}"


def _changes(s: Settings, relief: Relief, rate: float, t: int) -> dict[str, tuple[str, str]]:
    """Settings that the relief changes, by their option: the present value and the new one."""
    before, after = effective(s, Relief(), t), effective(s, relief, t)
    found: dict[str, tuple[str, str]] = {}
    if relief.rate != 1:
        found["optimiser.lr"] = f"{rate:.3g}", f"{rate * relief.rate:.3g}"
    for k, source in enumerate(s.sources):
        option = "contrast.beta" if source.beta is None else f"sources.{k}.beta"
        if after.betas[k] != before.betas[k]:
            now = name_or_value(s.beta_of(source))
            found[option] = _text(now), f"{after.betas[k]:.3g}"
        new, kernel = after.sources[k], source.kernel
        if new.steps != source.steps:
            found[f"sources.{k}.steps"] = str(source.steps), str(new.steps)
        if new.start is not source.start:
            found[f"sources.{k}.start"] = _name(source.start), _name(new.start)
        scale = relief.step_scale(source)
        if scale != 1:
            smaller = replace(kernel, step_size=kernel.step_size * scale).step_size
            option = f"sources.{k}.kernel.step_size"
            found[option] = f"{kernel.step_size:.3g}", f"{smaller:.3g}"
    if after.data_noise != before.data_noise:
        found["data_noise"] = f"{before.data_noise or 0:.3g}", f"{after.data_noise or 0:.3g}"
    if after.least_grad_scale != before.least_grad_scale:
        found["least_grad_scale"] = (
            f"{before.least_grad_scale:.3g}",
            f"{after.least_grad_scale:.3g}",
        )
    return found


def _name(part: object) -> str:
    """A part as it is printed: its class with its arguments, or its class alone."""
    text = repr(part)
    return text if len(text) <= 60 and not text.startswith("<") else type(part).__name__


def _text(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
