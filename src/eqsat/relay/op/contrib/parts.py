"""What the pattern tables of targets are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial, reduce
from operator import or_
from typing import Any, TypeAlias

import numpy as np

from eqsat.relay.dataflow_pattern import DFPattern, is_constant, is_op, wildcard
from eqsat.relay.dataflow_pattern.graph import DataflowGraph
from eqsat.relay.dataflow_pattern.matcher import Matcher
from eqsat.relay.expr import Call, Expr
from eqsat.relay.op.op import register_op_attr
from eqsat.relay.ty import TensorType, TupleType, Type, is_static

Entry: TypeAlias = tuple[str, DFPattern, Callable[[Expr], bool]]

Condition: TypeAlias = Callable[[Expr, dict[DFPattern, Expr]], bool]
"""What must hold of the root of a match, and of what the patterns in it matched."""

ACTIVATIONS: dict[str, Callable[[DFPattern], DFPattern]] = {
    "relu": lambda x: is_op("nn.relu")(x),
    "clip": lambda x: is_op("clip")(x),
    "tanh": lambda x: is_op("tanh")(x),
    "sigmoid": lambda x: is_op("sigmoid")(x),
    "gelu": lambda x: is_op("nn.gelu")(x) | gelu_by_erf(x),
    "swish": lambda x: is_op("multiply")(x, is_op("sigmoid")(x)),
    "mish": lambda x: is_op("multiply")(
        x, is_op("tanh")(is_op("log")(is_op("add")(is_op("exp")(x), scalar_near(1.0))))
    ),
    "hardswish": lambda x: is_op("hardswish")(x),
}
"""Name of an activation -> the patterns of it, over what it is applied to."""


def _softplus(x: DFPattern) -> DFPattern:
    """log(exp x + 1)."""
    return is_op("log")(is_op("add")(is_op("exp")(x), scalar_near(1.0)))


def entry(name: str, pattern: DFPattern, *conditions: Condition) -> Entry:
    """A row of a pattern table; each condition gets the root and what the patterns in it matched.

    Conditions are functions of a module, with arguments: so rows can be pickled.
    """
    return name, pattern, partial(_passes, pattern, conditions)


def _passes(pattern: DFPattern, conditions: Sequence[Condition], root: Expr) -> bool:
    matcher = Matcher(pattern, DataflowGraph(root))
    if not matcher.match(root):
        return False
    bound = {part: found[0] for part, found in matcher.bound.items()}
    return all(holds(root, bound) for holds in conditions)


def scalar_near(value: float) -> DFPattern:
    """A constant of one element that is close to ``value``."""
    return is_constant(predicate=_is_near(value))


@cache
def _is_near(value: float) -> Callable[[Any], bool]:
    """One predicate for each value: an e-graph asks a predicate once about each constant."""
    return partial(_is_scalar_near, value)


def _is_scalar_near(value: float, array: Any) -> bool:
    return array.size == 1 and bool(np.isclose(array.flat[0], value, rtol=1e-3))


def gelu_by_erf(x: DFPattern) -> DFPattern:
    """x (1 + erf(x / sqrt 2)) / 2, with the half at any of its places."""
    root, half, one = np.sqrt(2.0), scalar_near(0.5), scalar_near(1.0)
    scaled = is_op("divide")(x, scalar_near(root)) | is_op("multiply")(x, scalar_near(1 / root))
    shifted = is_op("add")(is_op("erf")(scaled), one)
    multiply = is_op("multiply")
    halved = multiply(x, half)
    return multiply(multiply(x, shifted), half) | multiply(halved, shifted) | multiply(x, multiply(shifted, half))


def layer_norm_written_out() -> DFPattern:
    """gamma (x - mean x) / sqrt(mean (x - mean x)^2 + epsilon) + beta."""
    x = wildcard()
    centred = is_op("subtract")(x, is_op("mean")(x))
    squared = is_op("power")(centred, scalar_near(2.0)) | is_op("multiply")(centred, centred)
    deviation = is_op("sqrt")(is_op("add")(is_op("mean")(squared), is_constant()))
    scaled = is_op("multiply")(is_op("divide")(centred, deviation), wildcard())
    return is_op("add")(scaled, wildcard())


def attention() -> DFPattern:
    """softmax(q k' [scaled] [+ mask]) v."""
    scores: DFPattern = is_op("nn.batch_matmul")(wildcard(), wildcard())
    scores = scores | is_op("multiply")(scores, is_constant()) | is_op("divide")(scores, is_constant())
    scores = scores | is_op("add")(scores, wildcard())
    return is_op("nn.batch_matmul")(is_op("nn.softmax")(scores), wildcard())


def attribute(node: Expr, name: str, default: Any = None) -> Any:
    """An attribute of an operator's call, ``default`` where it has none or it is not set."""
    attrs = node.attrs if isinstance(node, Call) else None
    value = None if attrs is None else attrs.get(name)
    return default if value is None or value == "" else value


def any_of(*names: str) -> DFPattern:
    """One of several operators, as the callee of a call."""
    first, *others = map(is_op, names)
    return reduce(or_, others, first)


def is_vector(ty: Type | None) -> bool:
    """Whether all dimensions but one are 1, as those of a bias are."""
    return is_static(ty) and sum(dim != 1 for dim in ty.concrete_shape) <= 1


def per_channel(bias: DFPattern) -> Condition:
    """Condition: what ``bias`` matched is added to each position alike."""
    return partial(_is_per_channel, bias)


def _is_per_channel(bias: DFPattern, root: Expr, bound: dict[DFPattern, Expr]) -> bool:
    return is_vector(bound[bias]._checked_type)


def of_shape_of(addend: DFPattern) -> Condition:
    """Condition: what ``addend`` matched is added element by element."""
    return partial(_is_of_shape_of, addend)


def _is_of_shape_of(addend: DFPattern, root: Expr, bound: dict[DFPattern, Expr]) -> bool:
    return bound[addend]._checked_type == root._checked_type


def of_dtypes(*dtypes: str) -> Condition:
    """Condition: the result is a tensor, or tuple whose first field is one, of one of ``dtypes``."""
    return partial(_is_of_dtypes, dtypes)


def _is_of_dtypes(dtypes: Sequence[str], root: Expr, bound: dict[DFPattern, Expr]) -> bool:
    ty = tensor_of(root)
    return ty is not None and ty.dtype in dtypes


def tensor_of(root: Expr) -> TensorType | None:
    """The type of a tensor, or of the first field of a tuple; None of anything else."""
    ty = root._checked_type
    first = ty.fields[0] if isinstance(ty, TupleType) and ty.fields else ty
    return first if isinstance(first, TensorType) else None


def product_entry(
    target: str,
    word: str,
    product: DFPattern,
    *conditions: Condition,
    with_bias: bool,
    with_sum: bool,
    activation: str | None,
) -> Entry:
    """The composite of a product and what follows it: a bias, the sum with another tensor, and an activation."""
    bias, addend = wildcard(), wildcard()
    value: DFPattern = product(wildcard(), wildcard())
    if with_bias:
        value = is_op("nn.bias_add")(value, bias) | is_op("add")(value, bias)
        conditions = (*conditions, per_channel(bias))
    if with_sum:
        value = is_op("add")(value, addend)
        conditions = (*conditions, of_shape_of(addend))
    if activation:
        value = ACTIVATIONS[activation](value)
    words = [word, *["bias"] * with_bias, *["sum"] * with_sum, *([activation] if activation else [])]
    return entry(f"{target}.{'_'.join(words)}", value, *conditions)


def takes_calls(target: str, names: Sequence[str], supports: Callable[[Any], bool]) -> None:
    """Register that ``target`` takes calls of the named operators of which ``supports(call)`` holds."""
    for name in names:
        register_op_attr(name, f"target.{target}", supports)
