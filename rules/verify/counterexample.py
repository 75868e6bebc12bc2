"""A counterexample as a Python program: it computes both sides of a rule and prints what they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from eqsat.egraph.rule import Array
from eqsat.relay.expr import Constant, Expr, Function, Tuple, Var
from eqsat.relay.literal import scalar_text
from eqsat.relay.module import IRModule
from eqsat.relay.ty import TensorType
from eqsat.relay.visitor import post_order, rebuild

Value: TypeAlias = "Array | tuple[Value, ...]"

_HEAD = """\
from numpy import array, inf, nan

from eqsat.relay import parse, parse_expr
from eqsat.relay.interpreter import evaluate
"""


def program(
    reason: str,
    left: tuple[Expr, ...],
    right: tuple[Expr, ...],
    values: dict[Var, Value],
    module: IRModule | None = None,
) -> str:
    """Return a program that shows how two sides differ.

    Args:
        reason: How they differ; it becomes a comment.
        left, right: The roots of the sides.
        values: The values of the variables.
        module: The functions that the sides call by name.
    """
    named: dict[Expr, Expr] = {}
    inputs: dict[str, Value] = {}
    parameters: list[Var] = []

    def add(node: Expr, hint: str, ty: object, value: Value) -> None:
        name = hint if hint not in inputs else f"{hint}_{len(inputs)}"
        named[node] = parameter = Var(name, ty)  # type: ignore[arg-type]
        inputs[name] = value
        parameters.append(parameter)

    for var, value in values.items():
        add(var, var.name_hint, var.type_annotation, value)
    for node in post_order(Tuple((*left, *right))):
        if isinstance(node, Constant) and scalar_text(node.data) is None:
            data = node.data.numpy()
            add(node, "constant", TensorType(data.shape, data.dtype.name), data)
        elif node not in named:
            named[node] = rebuild(node, named)
    sides = [_text(Function(parameters, whole([named[root] for root in roots]))) for roots in (left, right)]
    lines = [*[f"# {line}" for line in reason.splitlines()], _HEAD]
    if module is not None:
        lines.append(f"module = parse({_text(module)})")
    lines += ["inputs = {", *[f"    {name!r}: {_code(value)}," for name, value in inputs.items()], "}"]
    given = "inputs" if module is None else "inputs, module"
    for name, side in zip(("left", "right"), sides, strict=True):
        lines += [f"{name} = parse_expr({side})", f'print("{name}:", evaluate({name}, {given}))']
    return "\n".join(lines)


def whole(roots: Sequence[Expr]) -> Expr:
    """Return one expression for all roots."""
    return roots[0] if len(roots) == 1 else Tuple(roots)


def _text(node: Function | IRModule) -> str:
    return f'r"""\n{node.astext(show_meta_data=True)}\n"""'


def _code(value: Value) -> str:
    """Return the Python expression of a value; no digit is lost."""
    if isinstance(value, tuple):
        return f"({''.join(f'{_code(each)}, ' for each in value).strip()})"
    data = np.asarray(value)
    shape = f".reshape({data.shape})" if not data.size else ""
    return f"array({data.tolist()}, {data.dtype.name!r}){shape}"
