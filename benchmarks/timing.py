"""Time: contenders take turns, so that what disturbs the machine disturbs all of them.

    1. Warm-up: every contender runs a few times alone, so that compilation is over; not counted.
    2. A block is as many calls as take BLOCK seconds (at least one) for that contender.
    3. Rounds: in each, every contender runs one block, in an order that rotates.
    4. The figure is the median over rounds of a block's time divided by its calls.

Garbage collection is off inside a block, as timeit does it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from timeit import Timer

BLOCK = 0.01
WARM_UP_CALLS = 3


def milliseconds(
    contenders: Mapping[str, Callable[[], object]],
    seconds: float,
    rounds: tuple[int, int] = (3, 200),
) -> dict[str, float]:
    """Median time of a call, for each contender.

    Args:
        contenders: what to call, by name.
        seconds: about how long the rounds may take together.
        rounds: fewest and most.
    """
    timers = {name: Timer(work) for name, work in contenders.items()}
    calls, round_takes = {}, 0.0
    for name, timer in timers.items():
        warm_up = WARM_UP_CALLS if timer.timeit(1) < 1 else 1
        once = timer.timeit(warm_up) / warm_up
        calls[name] = max(1, round(BLOCK / once))
        round_takes += once * calls[name]
    count = min(rounds[1], max(rounds[0], round(seconds / round_takes)))
    names = list(timers)
    times: dict[str, list[float]] = {name: [] for name in names}
    for k in range(count):
        shift = k % len(names)
        for name in names[shift:] + names[:shift]:
            times[name].append(timers[name].timeit(calls[name]) / calls[name])
    return {name: 1000 * median(values) for name, values in times.items()}
