"""Where ``torch.compile`` breaks a model into several graphs, and what did it."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Iterator
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
        around: Whether what is before and after it is compiled.
    """

    reason: str
    place: str
    condition: str | None = field(default=None, compare=False)
    around: bool = True

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
        becomes = (
            "what breaks a graph as it is, and optimizes what is before and after it alone"
            if self.around
            else "a function as it is, which PyTorch does not compile"
        )
        return f"eqsat leaves {becomes}: {what}{', ' if self.place else ''}{self.place}"


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
            yield Break(str(before[-1].reason), _place(before[-1].user_stack))
    if reason.graph_break:
        yield Break(str(reason.reason), _place(reason.user_stack), _condition(module))


def _place(stack: traceback.StackSummary) -> str:
    """The innermost line of a stack, with its file."""
    frame = stack[-1]
    return f"{frame.filename}:{frame.lineno}: {frame.line or ''}".rstrip(": ")


def _condition(module: fx.GraphModule) -> str | None:
    """The operator that gives the tensor of one element that a branch after a graph depends on."""
    (output,) = [node for node in module.graph.nodes if node.op == "output"]
    for node in reversed(output.all_input_nodes):
        value = node.meta.get("example_value")
        if node.op.startswith("call") and isinstance(value, torch.Tensor) and value.numel() == 1:
            return getattr(node.target, "__name__", None) or str(node.target)
    return None


def tell_of_skipped_functions(backend: Callable[..., Any], tell: Callable[[Break], None]) -> None:
    """Tell of each function that PyTorch gives up to compile, from now on until PyTorch is reset.

    Such a function reaches no backend. PyTorch calls back when it ends to compile a function, also where an error ends
    it; which backend the function was for stands in the frames that the error has left.

    Args:
        backend: The backend whose functions are told of.
        tell: What is called with the reason.
    """

    def ended(_: Any) -> None:
        error = sys.exc_info()[1]
        if isinstance(error, torch._dynamo.exc.Unsupported) and _is_for(backend, error) and error.real_stack:
            tell(Break(str(error.msg), _place(error.real_stack), around=False))

    ended.__qualname__ = tell_of_skipped_functions.__qualname__
    handler = torch._dynamo.callback.callback_handler
    if all(each.__qualname__ != ended.__qualname__ for each in handler.end_callbacks):
        handler.register_end_callback(ended)


def _is_for(backend: Callable[..., Any], error: BaseException) -> bool:
    """Whether an error ended the compilation of a function for a backend, and is not raised to the caller."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        given = frame.f_locals
        if "compiler_fn" in given and "one_graph" in given:
            compiler = torch._dynamo.eval_frame.innermost_backend(given["compiler_fn"])
            return not given["one_graph"] and getattr(compiler, "compiler_fn", compiler) is backend
    return False
