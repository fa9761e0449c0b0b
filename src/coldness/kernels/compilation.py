"""Compilation of chains: when it pays off, where it is cached, and what happens if it fails.

Compilation takes 10 to 30 s the first time. The result is cached in the process per potential,
kernel and shape, and on disk between runs (`coldness/__init__.py` says where). If compilation fails
(no C++ compiler, a network that cannot be traced), one warning says so and the function runs
eagerly.
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
"""Half a minute of compilation over the 0.4 ms per step that it saves on a small network, halved
because a second run finds the result on disk."""

_kept: WeakKeyDictionary[Any, dict[Any, Function]] = WeakKeyDictionary()


def worth_compiling(total_steps: int) -> bool:
    """Whether this many steps, over all calls with one shape, make up for the compilation time."""
    return total_steps >= STEPS_THAT_EARN_COMPILATION


def compiled_for(owner: Any, function: Any, key: Any, x: Tensor) -> Function:
    """The function, compiled on its first call for this owner, key and shape of x.

    Args:
        owner: the object whose potential the function evaluates; the cache lives as long as it.
        function: a pure function that reads nothing but its arguments and its module.
        key: everything that the compiled code depends on apart from the shape.
        x: a tensor with the shape, dtype and device of the calls.
    """
    # A bound method is a new object at every access; the object that it belongs to stays the same.
    of_owner = _kept.setdefault(getattr(owner, "__self__", owner), {})
    key = (getattr(owner, "__func__", None), key, x.shape, x.dtype, x.device)
    if key not in of_owner:
        of_owner[key] = _first_call(of_owner, function, key, x)
    return of_owner[key]


def _first_call(of_owner: dict[Any, Function], function: Any, key: Any, x: Tensor) -> Function:
    """A function that compiles when called and replaces itself by the result, compiled or eager."""
    # A separate code object: torch.compile counts recompilations per code object.
    name = f"{function.__name__}_{len(of_owner)}"
    code = function.__code__.replace(co_name=name)
    copy = types.FunctionType(code, function.__globals__, name)
    options: dict[str, Any] = {"cpp_wrapper": True} if x.device.type == "cpu" else {}

    def first(*arguments: Any) -> Any:
        log.info(
            "compiling the chain for shape %s (10 to 30 s, once per shape) ...", tuple(x.shape)
        )
        begin = time.perf_counter()
        try:
            compiled = torch.compile(copy, fullgraph=True, dynamic=False, options=options)
            result = compiled(*arguments)
        except Exception as error:
            reason = (str(error).strip().splitlines() or ["no reason given"])[0]
            log.warning(
                "the chain could not be compiled (%s: %s); running it eagerly",
                type(error).__name__,
                reason,
            )
            of_owner[key] = function
            return function(*arguments)
        log.info("compiled in %.1f s", time.perf_counter() - begin)
        of_owner[key] = compiled
        return result

    return first
