"""The operator registry: one entry per operator holds everything the other modules read of it.

:func:`define` makes the entry and gives the function that builds calls. Printer, parser, type inference,
interpreter, constant folding, lowering, cost models, rule verifier and front ends read the entry, so an
operator is added by one call of :func:`define`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from eqsat.errors import ArgumentError, OperatorError
from eqsat.relay.attrs import Attrs, normalize
from eqsat.relay.expr import Call, Expr, Op, Tuple, TupleWrapper, build_foreign
from eqsat.relay.traits import Trait
from eqsat.relay.ty import Dim, Type

get = Op.get


class OpPattern(IntEnum):
    """How an operator's outputs depend on its inputs (the attribute ``TOpPattern``)."""

    ELEMWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    COMM_REDUCE = 3
    OUT_ELEMWISE_FUSABLE = 4
    TUPLE = 7
    OPAQUE = 8


class _Required:
    def __repr__(self) -> str:
        return "<required>"


REQUIRED: Any = _Required()
"""Default of an attribute that every call must give."""


@dataclass(frozen=True)
class Field:
    """One attribute of an operator.

    Args:
        name: the attribute's name.
        kind: ``int``, ``bool``, ``float``, ``str``, ``dtype`` (a dtype name, ``""`` for unset), ``ints`` (a
            tuple), or ``any``. It decides how values are converted and how ``has_attr`` compares them.
        default: value when a call does not give one; :data:`REQUIRED` when it must. None stands for
            "not set" whatever the kind.
        convert: applied to a given value before it is stored, e.g. to make a pair of an int.
        told: whether the text form tells the value even when it is the default: Relay declares none.
    """

    name: str
    kind: str = "any"
    default: Any = REQUIRED
    convert: Callable[[Any], Any] | None = None
    told: bool = False

    def __call__(self, value: Any) -> Any:
        """The stored form of ``value``; raises TypeError or ValueError when it is not of this kind."""
        if self.convert is not None and value is not None:
            value = self.convert(value)
        value = normalize(value)
        return value if value is None else _CONVERTERS[self.kind](value)


def _exact_int(value: Any) -> int:
    if isinstance(value, float) and not value.is_integer():
        raise ValueError("not an integer")
    return value if isinstance(value, int) and not isinstance(value, bool) else int(value)


def _dtype_name(value: Any) -> str:
    return value if isinstance(value, str) else np.dtype(value).name


def _ints(value: Any) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, tuple) else (value,)


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "int": _exact_int,
    "bool": bool,
    "float": float,
    "str": str,
    "dtype": _dtype_name,
    "ints": _ints,
    "any": lambda value: value,
}


def define(
    name: str,
    arguments: str | None,
    *fields: Field,
    infer: Callable[[Any, Sequence[Type]], Type],
    kernel: Callable[..., Any] | None = None,
    kind: OpPattern | None = None,
    refine: Callable[[Any, Sequence[Type], Sequence[Sequence[Dim] | None]], Type | None] | None = None,
    deduce: Callable[[Any, Sequence[Type | None]], Sequence[Type | None]] | None = None,
    outputs: int | Callable[[Any], int | None] = 1,
    flops: Callable[[Any, Sequence[Type], Type], float] | None = None,
    traits: Trait = Trait.NONE,
    prepare: Callable[[dict[str, Any]], None] | None = None,
) -> Builder:
    """Enter an operator into the registry and give the function that builds calls of it.

    Args:
        name: its name, such as ``"nn.conv2d"``.
        arguments: names of its tensor arguments, separated by spaces; None for any number of them.
        fields: its attributes, in the order in which positional arguments of the builder give them.
        infer: ``infer(attrs, arg_types)`` gives the result's type or raises TypeCheckError with a text
            that says what does not fit; the caller adds operator and argument types. Every type in
            ``arg_types`` is a TensorType or TupleType whose dimensions may be ``Any``.
        kernel: ``kernel(attrs, *arrays)`` computes the result with NumPy; a tuple for several outputs;
            tuple arguments arrive as Python tuples.
        kind: its ``TOpPattern``, None when Relay registers none.
        traits: what holds of all its calls.
        refine: ``refine(attrs, arg_types, elements)`` gives a better type, or None, where elements of arguments
            that are lists of integers are known: sizes as dimensions, other numbers as ints, unnamed dimensions for
            what is not known; None for the other arguments.
        deduce: ``deduce(attrs, arg_types)`` completes argument types of which some are None (variables
            without annotation), as far as the attributes and the other arguments decide them.
        outputs: how many outputs; above 1 the builder gives a TupleWrapper. A function of the attributes may
            also give None: the result is no tuple.
        flops: ``flops(attrs, arg_types, type)``: floating-point operations of one evaluation. By default
            one per element of the result for kinds up to BROADCAST and one per element of the arguments
            for COMM_REDUCE, else none.
        prepare: may change what the builder was given, arguments and attributes in one dict by name, in
            place, e.g. make a tuple of a list.
    """
    if name in Op._registry:
        raise OperatorError(f"operator {name!r} is registered twice")
    op = Op(name, None if arguments is None else tuple(arguments.split()), fields)
    op.infer, op.refine, op.kernel, op.deduce = infer, refine, kernel, deduce
    op.outputs, op.flops, op.traits = outputs, flops, traits
    if kind is not None:
        op.attr_map["TOpPattern"] = int(kind)
    op.attr_map.update({name: True for trait, name in _RELAY_NAMES.items() if trait in traits})
    Op._registry[name] = op
    return Builder(op, prepare)


_RELAY_NAMES = {Trait.STATEFUL: "TOpIsStateful", Trait.NON_COMPUTATIONAL: "TNonComputational"}
"""Traits that Relay has too, as operator attributes."""


def operators(traits: Trait, arguments: int | None = None) -> list[Op]:
    """The operators that have all of some traits, in the order of their names.

    Args:
        traits: what must hold of them.
        arguments: how many tensor arguments they take; None for any number.
    """
    found = [Op._registry[name] for name in sorted(Op._registry)]
    return [op for op in found if op.has(traits) and arguments in (None, len(op.arguments or ()))]


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10) -> Any:
    """Set attribute ``attr_key`` of an operator, directly or as a decorator of the value.

    Args:
        op_name: the operator.
        attr_key: such as ``"target.dnnl"``.
        value: the value; left out, the decorated function is it.
        level: accepted for compatibility; the last registration holds.
    """
    op = Op.get(op_name)

    def register(attribute: Any) -> Any:
        op.attr_map[attr_key] = attribute
        return attribute

    return register if value is None else register(value)


def make_attrs(op: Op, given: Mapping[str, Any]) -> Attrs | None:
    """Attributes for a call of ``op``: the given values, converted, and defaults; None if it has none.

    Raises:
        OperatorError: an attribute the operator does not have, lacks, or whose value is of a wrong kind.
    """
    if not op.fields and not given:
        return None
    values: dict[str, Any] = {}
    for field in op.fields:
        value = given.get(field.name, field.default)
        if value is REQUIRED:
            raise OperatorError(f"{op.name} needs attribute {field.name!r}")
        try:
            values[field.name] = field(value)
        except (TypeError, ValueError, OverflowError):
            raise OperatorError(f"{op.name}: {field.name}={value!r} is not of kind {field.kind}") from None
    for name in given:
        if name not in values:
            raise OperatorError(f"{op.name} has no attribute {name!r}; it has {list(values)}")
    return Attrs(values, op.name)


class Builder:
    """Builds calls of one operator from tensor arguments followed by attributes.

    Called with expressions it gives a call (a TupleWrapper when the operator has several outputs). With a
    pattern or rule template among the tensor arguments it gives a pattern or template; then only the
    attributes that were written count, the others match anything.
    """

    def __init__(self, op: Op, prepare: Callable[[dict[str, Any]], None] | None):
        self.op = op
        self.prepare = prepare
        self.__name__ = op.name.rpartition(".")[2]
        names = op.arguments or ()
        self._names = (*names, *(field.name for field in op.fields))
        self._arity = len(names)
        self._default: Attrs | None = None
        self._plain = prepare is None and op.outputs == 1 and op.arguments is not None
        if self._plain and all(field.default is not REQUIRED for field in op.fields):
            self._default = make_attrs(op, {})
        else:
            self._plain = False
        self.__signature__ = inspect.Signature(
            [
                inspect.Parameter(
                    name,
                    inspect.Parameter.POSITIONAL_OR_KEYWORD,
                    default=inspect.Parameter.empty if name in names else _default_of(op, name),
                )
                for name in self._names
            ]
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._plain and not kwargs and len(args) == self._arity:
            for arg in args:
                if not isinstance(arg, Expr):
                    return build_foreign(self.op, args, {}, arg)
            return Call(self.op, args, self._default)
        return self._call(args, kwargs)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        op = self.op
        if op.arguments is None:
            return self._finish(list(args), kwargs)
        bound = self._bind(args, kwargs)
        if self.prepare is not None:
            self.prepare(bound)
        tensors = [bound.pop(name) for name in op.arguments]
        return self._finish(tensors, bound)

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if len(args) > len(self._names):
            raise ArgumentError(
                f"{self.op.name} takes at most {len(self._names)} arguments {self._names}, not {len(args)}"
            )
        bound = dict(zip(self._names, args, strict=False))
        for name, value in kwargs.items():
            if name in bound:
                raise ArgumentError(f"{self.op.name}: argument {name!r} is given twice")
            bound[name] = value
        missing = [name for name in self.op.arguments or () if name not in bound]
        if missing:
            raise ArgumentError(f"{self.op.name} needs argument {missing[0]!r}; it takes {self._names}")
        return bound

    def _finish(self, tensors: list[Any], given: dict[str, Any]) -> Any:
        op = self.op
        for tensor in tensors:
            if not isinstance(tensor, Expr):
                return build_foreign(op, tensors, given, tensor)
        attrs = make_attrs(op, given)
        call = Call(op, tensors, attrs)
        outputs = op.outputs if isinstance(op.outputs, int) else op.outputs(attrs or Attrs())
        if outputs is None or op.outputs == 1:
            return call
        return TupleWrapper(call, outputs)

    def __repr__(self) -> str:
        return f"<builder of {self.op.name}{self.__signature__}>"


def is_operand(value: Any) -> bool:
    """Whether ``value`` can be a tensor argument: an expression, pattern or rule template."""
    return isinstance(value, Expr) or hasattr(value, "build_call")


def tuple_of(fields: Any) -> Any:
    """A tuple argument from a sequence of operands; what is no sequence is given back.

    With a pattern or template among the fields its method ``build_tuple(fields)`` builds the tuple.
    """
    if not isinstance(fields, (list, tuple)):
        return fields.astuple() if isinstance(fields, TupleWrapper) else fields
    for field in fields:
        if not isinstance(field, Expr):
            build = getattr(field, "build_tuple", None)
            if build is None:
                raise ArgumentError(f"a field of a tuple argument must be an expression, not {field!r}")
            return build(fields)
    return Tuple(fields)


def _default_of(op: Op, name: str) -> Any:
    (default,) = (field.default for field in op.fields if field.name == name)
    return inspect.Parameter.empty if default is REQUIRED else default
