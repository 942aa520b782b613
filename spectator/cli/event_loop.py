"""The event loop of commands that keep many requests under way: uvloop where it is installed."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

_Result = TypeVar("_Result")


def run_busily(main: Coroutine[Any, Any, _Result]) -> _Result:
    """Run ``main`` as :func:`asyncio.run` does; on uvloop a request takes a fifth less processor time.

    What was imported until now is frozen (``gc.freeze``): no full collection looks at it again.

    >>> async def answer():
    ...     return 42
    >>> run_busily(answer())
    42
    """
    gc.freeze()
    try:
        from uvloop import new_event_loop
    except ImportError:  # there is none for Windows
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
