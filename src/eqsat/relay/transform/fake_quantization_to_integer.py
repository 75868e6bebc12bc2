"""FakeQuantizationToInteger: real numbers between ``qnn.dequantize`` and ``qnn.quantize`` are computed as integers.

In a saturation the rules of :mod:`eqsat.rules.quantized` do a part of it: ``quantize-dequantized``, and operators that
take integers as they are.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from eqsat.errors import EqsatError, PassError
from eqsat.relay.expr import Call, Constant, Expr, Function, Op, Tuple, TupleGetItem
from eqsat.relay.infer import type_of
from eqsat.relay.op.op import register_op_attr
from eqsat.relay.op.qnn import op as qnn
from eqsat.relay.op.types import tensor
from eqsat.relay.transform.affine import TensorAffineType, TupleAffineType
from eqsat.relay.transform.base import FunctionPass, Pass, PassInfo
from eqsat.relay.transform.integer_rules import CHOOSING, OPTIONAL_RULES, RULES, AffineType, Rule
from eqsat.relay.transform.simplify.rule import op_name, tensor_type
from eqsat.relay.visitor import post_order, rebuild

QUANTIZE, DEQUANTIZE = "qnn.quantize", "qnn.dequantize"

_ALONE = """
    broadcast_to clip expand_dims max maximum min minimum nn.avg_pool2d nn.batch_flatten nn.batch_matmul nn.bias_add
    nn.conv2d nn.conv2d_transpose nn.dense nn.depth_to_space nn.max_pool2d nn.pad nn.relu reshape split squeeze
    strided_slice transpose
"""
"""Operators that are also converted without a ``qnn.quantize`` after them: their rules need no type of a result."""


def register_fake_quantization_to_integer(op_name: str, func: Any = None, level: int = 10) -> Any:
    """Register how an operator is computed on integers, directly or as a decorator.

    Args:
        op_name: the operator's name.
        func: ``func(call, types)`` gives an expression and its affine type; see
            :mod:`eqsat.relay.transform.integer_rules`.
        level: accepted for compatibility with TVM and ignored.
    """
    return register_op_attr(op_name, "FTVMFakeQuantizationToInteger", func, level)


def FakeQuantizationToInteger(
    hard_fail: bool = False, use_qat: bool = False, optional_qnn_ops: Collection[str] = ()
) -> Pass:
    """Compute the operators between ``qnn.dequantize`` and ``qnn.quantize`` with integers, up to rounding.

    Args:
        hard_fail: Whether a region that cannot be converted is an error; otherwise it stays unchanged.
        use_qat: Whether to also convert single operators with dequantized arguments, and dequantize their results.
        optional_qnn_ops: Operators to convert even though integers are much less accurate for them, such as
            ``nn.softmax``.

    Raises:
        PassError: With ``hard_fail``, a region cannot be converted.
    """

    def transform(function: Function, mod: Any, context: Any) -> Expr:
        converted = _Regions(frozenset(optional_qnn_ops), hard_fail).run(function)
        return _Singles(frozenset(optional_qnn_ops)).run(converted) if use_qat else converted

    return FunctionPass(transform, PassInfo(0, "FakeQuantizationToInteger"), typed=True)


class _Rules:
    def __init__(self, optional: frozenset[str]):
        self.optional = optional

    def of(self, node: Expr) -> Rule | None:
        op = node.op if isinstance(node, Call) else None
        if not isinstance(op, Op):
            return None
        if op.name in self.optional and op.get_attr("FTVMOptionalFakeQuantizationToInteger") is not None:
            optional: Rule = op.get_attr("FTVMOptionalFakeQuantizationToInteger")
            return optional
        rule: Rule | None = op.get_attr("FTVMFakeQuantizationToInteger") or RULES.get(op.name)
        return rule or (OPTIONAL_RULES.get(op.name) if op.name in self.optional else None)


def _applied(rule: Rule, call: Any, types: dict[Expr, Any]) -> tuple[Expr, AffineType]:
    """What a rule gives, type-checked."""
    try:
        answer = rule(call, types)
    except EqsatError:
        raise
    except Exception as error:  # of a function that a caller registered
        raise PassError(f"FTVMFakeQuantizationToInteger of {op_name(call)} raised {error!r}") from error
    if len(answer) != 2 or not isinstance(answer[1], (TensorAffineType, TupleAffineType)):
        raise PassError(f"FTVMFakeQuantizationToInteger of {op_name(call)} must give an expression and its affine type")
    made, ty = answer
    type_of(made)
    return made, ty


class _Types(dict[Expr, Any]):
    """What integers stand for; it notes when the type of the region's result is asked for."""

    result: Expr | None = None
    was_asked = False

    def __getitem__(self, key: Expr) -> Any:
        self.was_asked |= key is self.result
        if key not in self:
            reason = "is within a region" if key is self.result else "reads a tensor that is not quantized"
            raise PassError(f"{op_name(self.result or key) or 'an operator'} {reason}: its integers have no scale")
        return super().__getitem__(key)


class _Regions:
    """Converts whole regions.

    What does not depend on what the result of its region stands for is converted once for all regions that it is in.
    """

    def __init__(self, optional: frozenset[str], hard_fail: bool):
        self.rules = _Rules(optional)
        self.hard_fail = hard_fail
        self.new: dict[Expr, Expr] = {}
        self.can: dict[Expr, bool] = {}
        self.shared: dict[Expr, tuple[Expr, Any]] = {}

    def run(self, function: Function) -> Expr:
        for node in post_order(function):
            self.can[node] = self._can(node)
            self.new[node] = rebuild(node, self.new)
            if op_name(node) == QUANTIZE and isinstance(node, Call) and not isinstance(node.args[0], Constant):
                self.new[node] = self._converted(node) or self.new[node]
        return self.new[function]

    def _can(self, node: Expr) -> bool:
        """Whether a node is computed of dequantized tensors and constants by operators that have rules."""
        if isinstance(node, Constant) or op_name(node) == DEQUANTIZE:
            return True
        if isinstance(node, (Tuple, TupleGetItem)):
            return all(self.can[child] for child in node.children())
        return (
            op_name(node) != QUANTIZE
            and self.rules.of(node) is not None
            and all(self.can[arg] for arg in node.children()[1:])
        )

    def _converted(self, call: Call) -> Expr | None:
        if not self.can[call.args[0]]:
            self._fail("it reads a tensor that is not quantized, or uses an operator without a rule")
            return None
        attrs: Any = call.attrs
        out = TensorAffineType(self.new[call.args[1]], self.new[call.args[2]], attrs.out_dtype, attrs.axis)
        try:
            return self._region(call, out)
        except EqsatError as error:
            self._fail(str(error))
            return None

    def _fail(self, why: str) -> None:
        if self.hard_fail:
            raise PassError(f"FakeQuantizationToInteger cannot convert what a {QUANTIZE} reads: {why}")

    def _region(self, root: Call, out: TensorAffineType) -> Expr:
        found: dict[Expr, tuple[Expr, Any]] = {}
        order = post_order(root.args[0], stop=self.shared, children=self._needs)
        inner = self._inner([*order, root])
        for node in [*order, root]:
            operands = [root.args[0]] if node is root else self._needs(node)
            entries = [self.shared.get(operand) or found[operand] for operand in operands]
            types = _Types({new: ty for new, ty in entries if ty is not None})
            found[node] = self._step(node, [new for new, _ in entries], types, None if node in inner else out)
            if node is not root and not types.was_asked and all(operand in self.shared for operand in operands):
                self.shared[node] = found[node]
        return found[root][0]

    def _inner(self, order: list[Expr]) -> set[Expr]:
        """The nodes whose numbers need not be those that the result of the region can stand for."""
        inner: set[Expr] = set()
        for node in reversed(order[:-1]):
            is_call = isinstance(node, Call)
            if node in inner or (is_call and op_name(node) not in CHOOSING):
                inner.update(self._needs(node))
        return inner

    def _needs(self, node: Expr) -> list[Expr]:
        if op_name(node) == DEQUANTIZE or isinstance(node, Constant):
            return []
        return [child for child in node.children() if not isinstance(child, Op)]

    def _step(self, node: Expr, operands: list[Expr], types: _Types, out: TensorAffineType | None) -> tuple[Expr, Any]:
        if isinstance(node, Constant):
            return node, None
        if isinstance(node, Tuple):
            return Tuple(operands), TupleAffineType([types[operand] for operand in operands])
        if isinstance(node, TupleGetItem):
            return TupleGetItem(operands[0], node.index), types[operands[0]].types[node.index]
        assert isinstance(node, Call)
        if op_name(node) == DEQUANTIZE:
            call: Any = self.new[node]
            types[call] = _dequantized_type(call, tensor_type(node.args[0]).dtype)
        else:
            others = [self.new[arg] for arg in node.args[len(operands) :]]
            call = Call(node.op, [*operands, *others], node.attrs)
            types.result = call
            if out is not None:
                types[call] = out
        rule = self.rules.of(node)
        assert rule is not None
        return _applied(rule, call, types)


class _Singles:
    """Converts single operators whose arguments are dequantized."""

    def __init__(self, optional: frozenset[str]):
        self.alone = frozenset(_ALONE.split())
        self.rules = _Rules(optional)

    def run(self, function: Expr) -> Expr:
        new: dict[Expr, Expr] = {}
        for node in post_order(function):
            made = rebuild(node, new)
            new[node] = self._converted(made) if isinstance(made, Call) and op_name(made) in self.alone else made
        return new[function]

    def _converted(self, call: Call) -> Expr:
        types = _Types()
        args: list[Expr] = []
        for arg in call.args:
            if isinstance(arg, Call) and op_name(arg) == DEQUANTIZE:
                types[arg.args[0]] = _dequantized_type(arg, tensor(type_of(arg.args[0])).dtype)
                arg = arg.args[0]
            elif not isinstance(arg, Constant):
                return call
            args.append(arg)
        rule = self.rules.of(call)
        if rule is None or not types:
            return call
        try:
            made, ty = _applied(rule, Call(call.op, args, call.attrs), types)
        except EqsatError:
            return call
        if isinstance(ty, TupleAffineType):
            fields = [_dequantized(TupleGetItem(made, index), each) for index, each in enumerate(ty.types)]
            return Tuple(fields)
        return _dequantized(made, ty)


def _dequantized_type(call: Any, dtype: str) -> TensorAffineType:
    """What the integers of this dtype that a call dequantizes stand for."""
    _, scale, zero_point = call.args
    return TensorAffineType(scale, zero_point, dtype, call.attrs.axis)


def _dequantized(value: Expr, ty: TensorAffineType) -> Expr:
    result: Expr = qnn.dequantize(value, ty.scale, ty.zero_point, ty.axis)
    return result
