"""Recursive procedures without the Python stack: a step that needs another one's result yields it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias

Step: TypeAlias = Generator[Any, Any, Any]
"""A procedure: ``result = yield other_step(...)`` calls another, ``return`` gives its result."""


def run(step: Step) -> Any:
    """The result of ``step``, however deep its calls nest."""
    stack = [step]
    result: Any = None
    while stack:
        try:
            callee = stack[-1].send(result)
        except StopIteration as stop:
            stack.pop()
            result = stop.value
        else:
            stack.append(callee)
            result = None
    return result
