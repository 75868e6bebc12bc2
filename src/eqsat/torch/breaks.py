"""Where ``torch.compile`` breaks a model into several graphs, and what did it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

_RESUMED = re.compile(r"torch_dynamo_resume_in_.*_at_(\d+)")
"""The name of a function that goes on after a break in a line."""

_BRANCH = "generic_jump"
"""How PyTorch calls a branch that depends on the elements of a tensor."""


@dataclass(frozen=True)
class Break:
    """What breaks a model into several graphs.

    Args:
        reason: What PyTorch says of it.
        place: The line of the model, empty if it is not known.
        condition: The operator that gives what a branch depends on, None if it is not known or no branch.
    """

    reason: str
    place: str
    condition: str | None = field(compare=False)

    def __str__(self) -> str:
        """The operator and its line, and what becomes of the model, in one line."""
        title, *more = [line.strip() for line in self.reason.splitlines() if line.strip()]
        if title.startswith(_BRANCH):
            what = "a branch that depends on the elements of a tensor"
            what += f", which {self.condition} gives" if self.condition else ""
        else:
            context = [line.partition(":")[2].strip() for line in more if line.startswith("Developer debug context:")]
            named = any(name in each for name in _QUOTED.findall(title) for each in context)
            what = " ".join([title.rstrip("."), *[f"({each})" for each in context if each and not named]])
        return (
            "eqsat leaves what breaks a graph as it is, and optimizes what is before and after it alone: "
            f"{what}{', ' if self.place else ''}{self.place}"
        )


_QUOTED = re.compile("`([^`]+)`")


def graph_breaks(module: fx.GraphModule) -> Iterator[Break]:
    """What breaks a model right before or after a graph of it."""
    reason = getattr(module, "compile_subgraph_reason", None)
    if reason is None or not reason.user_stack:
        return
    first = reason.user_stack[0]
    resumed = _RESUMED.fullmatch(first.name)
    if resumed is not None:  # nothing may have been compiled before it, so that this is the first to be heard of it
        place = (first.filename, int(resumed[1]))
        known = [each for each in torch._dynamo.output_graph.graph_break_reasons if each.user_stack]
        before = [each for each in known if (each.user_stack[0].filename, each.user_stack[0].lineno) == place]
        if before:
            yield _break(before[-1], None)
    if reason.graph_break:
        yield _break(reason, _condition(module))


def _break(reason: Any, condition: str | None) -> Break:
    frame = reason.user_stack[-1]
    return Break(str(reason.reason), f"{frame.filename}:{frame.lineno}: {frame.line or ''}".rstrip(": "), condition)


def _condition(module: fx.GraphModule) -> str | None:
    """The operator that gives the tensor of one element that a branch after a graph depends on."""
    (output,) = [node for node in module.graph.nodes if node.op == "output"]
    for node in reversed(output.all_input_nodes):
        value = node.meta.get("example_value")
        if node.op.startswith("call") and isinstance(value, torch.Tensor) and value.numel() == 1:
            return getattr(node.target, "__name__", None) or str(node.target)
    return None
