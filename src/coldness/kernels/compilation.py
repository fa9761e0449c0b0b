"""Compilation of chains: when it pays, where it is kept, and what happens where it fails.

Compilation takes 10 to 30 s the first time. The result is kept per potential, kernel and shape in
the process, and on disk between runs (`coldness/__init__.py` says where). Where it fails (no C++
compiler, a network that cannot be traced), one line says so and the function runs eagerly.
"""

from __future__ import annotations

import logging
import time
import types
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

log = logging.getLogger("coldness")

Function = Callable[..., Any]

STEPS_THAT_EARN_COMPILATION = 30_000
"""About half a minute of compilation at the 0.4 ms a step that it saves on a small network, halved
because a second run finds it on disk."""

_kept: WeakKeyDictionary[Any, dict[Any, Function]] = WeakKeyDictionary()


def worth_compiling(total_steps: int) -> bool:
    """Whether that many steps, over all calls of one shape, earn the time of compilation back."""
    return total_steps >= STEPS_THAT_EARN_COMPILATION


def compiled_for(owner: Any, function: Any, key: Any, x: Tensor) -> Function:
    """The function, compiled on its first call for this owner, key and shape of x.

    Args:
        owner: whose potential the function evaluates; what is kept goes when it goes.
        function: pure; must read nothing but its arguments and its module.
        key: of all that the compiled code depends on beside the shape.
        x: an example of its tensors.
    """
    # A bound method is made anew at every access; the object that it belongs to lasts.
    of_owner = _kept.setdefault(getattr(owner, "__self__", owner), {})
    key = (getattr(owner, "__func__", None), key, x.shape, x.dtype, x.device)
    if key not in of_owner:
        of_owner[key] = _first_call(of_owner, function, key, x)
    return of_owner[key]


def _first_call(of_owner: dict[Any, Function], function: Any, key: Any, x: Tensor) -> Function:
    """Compiles when called, and puts what came of it (compiled or eager) in its own place."""
    # A code object of its own: torch.compile counts recompilations per code object.
    name = f"{function.__name__}_{len(of_owner)}"
    code = function.__code__.replace(co_name=name)
    copy = types.FunctionType(code, function.__globals__, name)
    options: dict[str, Any] = {"cpp_wrapper": True} if x.device.type == "cpu" else {}

    def first(*arguments: Any) -> Any:
        log.info("compiling the chain for %s (10 to 30 s, once per shape) ...", tuple(x.shape))
        begin = time.perf_counter()
        try:
            compiled = torch.compile(copy, fullgraph=True, dynamic=False, options=options)
            result = compiled(*arguments)
        except Exception as error:
            reason = (str(error).strip().splitlines() or ["no reason given"])[0]
            log.warning("no compiled chain (%s: %s); running eagerly", type(error).__name__, reason)
            of_owner[key] = function
            return function(*arguments)
        log.info("compiled in %.1f s", time.perf_counter() - begin)
        of_owner[key] = compiled
        return result

    return first
