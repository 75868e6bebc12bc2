"""The operator registry: one entry for each operator holds everything that the other modules need to know of it.

:func:`define` adds an operator: it makes the entry, an :class:`~eqsat.relay.expr.Op`, and returns the function that
builds calls. The printer, the parser, type inference, the interpreter, constant folding, the e-graph, cost models,
rules and their verifier read the entry.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar, overload

import numpy as np

from eqsat.errors import ArgumentError, OperatorError
from eqsat.relay.attrs import Attrs, normalize
from eqsat.relay.expr import Built, Call, Expr, Foreign, Op, Tuple, TupleWrapper, build_foreign, const, expression_hint
from eqsat.relay.op.types import broadcast, same_type
from eqsat.relay.traits import Trait
from eqsat.relay.ty import Dim, Type

get = Op.get

Result = TypeVar("Result", covariant=True)
_Array: TypeAlias = np.ndarray[Any, Any]
_Simple: TypeAlias = Mapping[str, Any] | str | float | np.generic | _Array | Type | None
_Value: TypeAlias = "Expr | TupleWrapper | Sequence[_Value] | _Simple"
"""What calls are built of."""
_Operand: TypeAlias = _Value | Foreign[Built] | Sequence[_Value | Foreign[Built]]


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
    """The declaration of one attribute of an operator.

    Attributes:
        name: the attribute's name.
        kind: ``int``, ``bool``, ``float``, ``str``, ``dtype`` (the name of a dtype, ``""`` when it is not set),
            ``ints`` (a tuple) or ``any``. The kind decides how values are converted and how ``has_attr`` compares them.
        default: the value of calls that give none, or :data:`REQUIRED` if every call must give one. None means
            that the attribute is not set, whatever its kind.
        convert: a function applied to a given value before it is stored, for example to make a pair of an int.
        told: whether the text form states the value even if it is the default, because Relay declares no default.
        choices: the values that type inference accepts; empty if it accepts all.
    """

    name: str
    kind: str = "any"
    default: Any = REQUIRED
    convert: Callable[[Any], Any] | None = None
    told: bool = False
    choices: Sequence[str] = ()

    def __call__(self, value: Any) -> Any:
        """Convert ``value`` to the form in which it is stored.

        Raises:
            TypeError, ValueError, OverflowError: The value is not of this kind.
        """
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


@overload
def define(  # type: ignore[overload-overlap]  # 1 is the default, and no other number
    name: str,
    arguments: str | None,
    *fields: Field,
    infer: Callable[[Any, Sequence[Type]], Type],
    kernel: Callable[..., Any] | None = None,
    denotation: Callable[..., Any] | str | None = None,
    kind: OpPattern | None = None,
    refine: Callable[[Any, Sequence[Type], Sequence[Sequence[Dim] | None]], Type | None] | None = None,
    deduce: Callable[[Any, Sequence[Type | None]], Sequence[Type | None]] | None = None,
    outputs: Literal[1] = 1,
    flops: Callable[[Any, Sequence[Type], Type], float] | None = None,
    traits: Trait = Trait.NONE,
) -> Builder: ...
@overload
def define(
    name: str,
    arguments: str | None,
    *fields: Field,
    infer: Callable[[Any, Sequence[Type]], Type],
    kernel: Callable[..., Any] | None = None,
    denotation: Callable[..., Any] | str | None = None,
    kind: OpPattern | None = None,
    refine: Callable[[Any, Sequence[Type], Sequence[Sequence[Dim] | None]], Type | None] | None = None,
    deduce: Callable[[Any, Sequence[Type | None]], Sequence[Type | None]] | None = None,
    outputs: int | Callable[[Any], int | None],
    flops: Callable[[Any, Sequence[Type], Type], float] | None = None,
    traits: Trait = Trait.NONE,
) -> BuilderOf[TupleWrapper]: ...
def define(
    name: str,
    arguments: str | None,
    *fields: Field,
    infer: Callable[[Any, Sequence[Type]], Type],
    kernel: Callable[..., Any] | None = None,
    denotation: Callable[..., Any] | str | None = None,
    kind: OpPattern | None = None,
    refine: Callable[[Any, Sequence[Type], Sequence[Sequence[Dim] | None]], Type | None] | None = None,
    deduce: Callable[[Any, Sequence[Type | None]], Sequence[Type | None]] | None = None,
    outputs: int | Callable[[Any], int | None] = 1,
    flops: Callable[[Any, Sequence[Type], Type], float] | None = None,
    traits: Trait = Trait.NONE,
) -> BuilderOf[Any]:
    """Add an operator to the registry and return the function that builds calls of it.

    Args:
        name: The operator's name, such as ``"nn.conv2d"``.
        arguments: The names of its tensor arguments, separated by spaces, or None if it takes any number of them.
            A star marks an argument that is a tuple of tensors, as in ``"*data"``: the builder also takes a list.
            A plus does too, and each call has a tuple of its own: of a Tuple or TupleWrapper it takes the fields.
        fields: Its attributes, in the order in which the builder takes them as positional arguments.
        infer: ``infer(attrs, arg_types)`` returns the type of the result, or raises TypeCheckError with a message
            that says what does not fit; the caller adds the operator and the argument types. Each argument type is
            a TensorType or a TupleType whose dimensions may be ``Any``.
        kernel: ``kernel(attrs, *arrays)`` computes the result with NumPy, a tuple if there are several outputs.
            Tuple arguments arrive as Python tuples.
        denotation: ``denotation(attrs, *arrays)`` computes the same as the kernel, up to rounding, from numbers or from
            terms in place of numbers: proofs of rules read from it what each element of the result is. It calls
            NumPy's functions on whole arrays, writes into no array and asks for the value of no element. By default
            it is the kernel. If a kernel cannot compute with terms, give another function, or a text that says why
            there is none.
        kind: The operator's ``TOpPattern``, or None if Relay registers none.
        traits: What holds of all calls of the operator.
        refine: ``refine(attrs, arg_types, elements)`` returns a more precise type, or None if there is none.
            ``elements`` has for each argument that is a list of integers its elements as far as they are known:
            ints, and dimensions for sizes (unnamed for what is not known). For other arguments it has None.
        deduce: ``deduce(attrs, arg_types)`` returns the argument types, with those that were None (of variables
            without annotation) filled in as far as the attributes and the other arguments determine them.
        outputs: The number of outputs. If it is above 1, the builder returns a TupleWrapper. A function of the
            attributes may also return None, which means that the result is not a tuple.
        flops: ``flops(attrs, arg_types, type)`` returns the number of floating-point operations of one evaluation.
            By default it is one for each element of the result for kinds up to BROADCAST, one for each element of
            the arguments for COMM_REDUCE, and 0 otherwise.

    Raises:
        OperatorError: There already is an operator of this name.
    """
    _check_new(name)
    names = None if arguments is None else arguments.split()
    op = Op(name, None if names is None else tuple(each.lstrip("*+") for each in names), fields)
    op.tuples = tuple(each[1:] for each in names or () if each[0] in "*+")
    op.own_tuples = tuple(each[1:] for each in names or () if each[0] == "+")
    op.infer, op.refine, op.kernel, op.deduce = infer, refine, kernel, deduce
    op.denotation = kernel if denotation is None else denotation
    op.outputs, op.flops, op.traits = outputs, flops, traits
    if kind is not None:
        op.attr_map["TOpPattern"] = int(kind)
    op.attr_map.update({name: True for trait, name in _RELAY_NAMES.items() if trait in traits})
    Op._registry[name] = op
    return BuilderOf(op)


def register(op_name: str, describe: str = "") -> None:
    """Add an operator without arguments or type relation, which are set on it afterwards, in the way of TVM.

    :func:`define` adds an operator with all that is known of it.

    Args:
        op_name: The operator's name.
        describe: What it does, for readers.

    Raises:
        OperatorError: There already is an operator of this name.
    """
    _check_new(op_name)
    Op._registry[op_name] = Op(op_name, ())


def _check_new(name: str) -> None:
    if Op.find(name) is not None:
        raise OperatorError(f"operator {name!r} is registered twice")


def register_pattern(op_name: str, pattern: OpPattern, level: int = 10) -> None:
    """Set the ``TOpPattern`` of an operator; ``level`` is as in :func:`register_op_attr`."""
    register_op_attr(op_name, "TOpPattern", int(pattern), level)


def register_stateful(op_name: str, stateful: bool, level: int = 10) -> None:
    """Set whether evaluation of an operator has effects; ``level`` is as in :func:`register_op_attr`."""
    op = Op.get(op_name)
    op.traits = op.traits | Trait.STATEFUL if stateful else op.traits & ~Trait.STATEFUL
    register_op_attr(op_name, "TOpIsStateful", stateful, level)


Op.relations.update(Broadcast=broadcast, Identity=same_type)

_RELAY_NAMES = {Trait.STATEFUL: "TOpIsStateful", Trait.NON_COMPUTATIONAL: "TNonComputational"}
"""Traits that Relay has too, as operator attributes."""


def operators(traits: Trait = Trait.NONE, arguments: int | None = None) -> list[Op]:
    """List the operators that have all of the given traits, sorted by name.

    Args:
        traits: What must hold of the operators.
        arguments: The number of arguments, each a single tensor, or None for all operators.
    """
    found = [op for _, op in sorted(Op._registry.items()) if op.has(traits)]
    return [op for op in found if arguments is None or (len(op.arguments or ()) == arguments and not op.tuples)]


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10) -> Any:
    """Set the attribute ``attr_key`` of an operator, directly or as a decorator of the value.

    Args:
        op_name: The operator's name.
        attr_key: The attribute's name, such as ``"target.dnnl"``.
        value: The value. If it is None, a decorator is returned that takes the decorated function as the value.
        level: Accepted for compatibility with TVM and ignored: the last registration holds.
    """
    op = Op.get(op_name)

    def register(attribute: Any) -> Any:
        op.attr_map[attr_key] = attribute
        return attribute

    return register if value is None else register(value)


def _registrar(attr_key: str) -> Callable[..., Any]:
    def register(op_name: str, value: Any = None, level: int = 10) -> Any:
        return register_op_attr(op_name, attr_key, value, level)

    return register


register_legalize = _registrar("FTVMLegalize")
"""``register_legalize(op_name, function)``, or as a decorator: what ``relay.transform.Legalize`` makes of calls."""

register_alter_op_layout = _registrar("FTVMAlterOpLayout")
"""The same for ``AlterOpLayout``."""

register_convert_op_layout = _registrar("FTVMConvertOpLayout")
"""The same for ``ConvertLayout``."""

register_infer_correct_layout = _registrar("FInferCorrectLayout")
"""The same for the rule that says which layouts an operator takes and gives."""


def make_attrs(op: Op, given: Mapping[str, Any]) -> Attrs | None:
    """Return the attributes of a call of ``op``: the given values, converted, and defaults for the others.

    An operator without attributes has None.

    Raises:
        OperatorError: The operator does not have a given attribute, a required one is missing, or a value is of the
            wrong kind.
    """
    if not op.fields and not given:
        return None
    values: dict[str, Any] = {}
    for field in op.fields:
        value = given.get(field.name, field.default)
        if value is REQUIRED:
            raise OperatorError(f"{op.name} needs attribute {field.name!r}")
        values[field.name] = _converted(op, field, value)
    for name in given:
        if name not in values:
            raise _no_attribute(op, name)
    return Attrs(values, op.name)


def convert_attribute(op: Op, name: str, value: Any) -> Any:
    """Convert the value of an attribute to the form in which calls hold it.

    Raises:
        OperatorError: The operator does not have the attribute, or the value is of the wrong kind.
    """
    for field in op.fields:
        if field.name == name:
            return _converted(op, field, value)
    raise _no_attribute(op, name)


def _converted(op: Op, field: Field, value: Any) -> Any:
    try:
        return field(value)
    except (TypeError, ValueError, OverflowError):
        raise OperatorError(f"{op.name}: {field.name}={value!r} is not of kind {field.kind}") from None


def _no_attribute(op: Op, name: str) -> OperatorError:
    return OperatorError(f"{op.name} has no attribute {name!r}; it has {[field.name for field in op.fields]}")


class Builds(Protocol[Result]):
    """A function that builds calls of an operator, or patterns and templates of rules."""

    @overload
    def __call__(self, *args: _Value, **kwargs: _Value) -> Result: ...
    @overload
    def __call__(self, *args: _Operand[Built], **kwargs: _Operand[Built]) -> Built: ...
    @overload
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


class BuilderOf(Generic[Result]):
    """Builds calls of one operator from tensor arguments followed by attributes.

    Called with expressions, it returns a call, or a TupleWrapper if the operator has several outputs. With a pattern
    or a template of a rule among the tensor arguments, it returns a pattern or a template. There only the attributes
    that were written count: the others match anything.
    """

    def __init__(self, op: Op):
        self.op = op
        self.__name__ = op.name.rpartition(".")[2]
        names = op.arguments or ()
        self._names = (*names, *(field.name for field in op.fields))
        self._arity = len(names)
        one_result = op.arguments is not None and not op.tuples and op.outputs == 1
        self._plain = one_result and all(field.default is not REQUIRED for field in op.fields)

    @cached_property
    def _default(self) -> Attrs | None:
        """The attributes of a call that says none."""
        return make_attrs(self.op, {})

    @cached_property
    def __signature__(self) -> inspect.Signature:
        """What the operator takes, for :func:`inspect.signature`."""
        defaults = {field.name: field.default for field in self.op.fields if field.default is not REQUIRED}
        empty, kind = inspect.Parameter.empty, inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature(
            [inspect.Parameter(name, kind, default=defaults.get(name, empty)) for name in self._names]
        )

    @overload
    def __call__(self, *args: _Value, **kwargs: _Value) -> Result: ...
    @overload
    def __call__(self, *args: _Operand[Built], **kwargs: _Operand[Built]) -> Built: ...
    @overload
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
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
        given = {name: bound.pop(name) for name in op.arguments}
        tensors = [
            tuple_of(value, name in op.own_tuples) if name in op.tuples else value for name, value in given.items()
        ]
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


Builder: TypeAlias = BuilderOf[Call]
"""Builds calls of an operator with one output."""


def is_operand(value: Any) -> bool:
    """Whether ``value`` can be a tensor argument: an expression, pattern or rule template."""
    return isinstance(value, Expr) or hasattr(value, "build_call")


def tensor_of(value: Any, dtype: str | None = None) -> Any:
    """Return an operand as it is, and numbers as a constant of them."""
    return value if is_operand(value) else const(np.array(value, dtype), dtype)


def tuple_of(fields: Any, own: bool = False) -> Any:
    """Return a sequence of operands as a tuple argument, and anything else as it is.

    If there is a pattern or a template among the fields, its method ``build_tuple(fields)`` builds the tuple.

    Args:
        fields: What was given.
        own: Whether to make a tuple of the fields of a Tuple or TupleWrapper, too.
    """
    if own and isinstance(fields, (Tuple, TupleWrapper)):
        fields = [fields[index] for index in range(len(fields))]
    if not isinstance(fields, (list, tuple)):
        return fields.astuple() if isinstance(fields, TupleWrapper) else fields
    for field in fields:
        if not isinstance(field, Expr):
            build = getattr(field, "build_tuple", None)
            if build is None:
                given = f"{field!r}{expression_hint(field)}"
                raise ArgumentError(f"a field of a tuple argument must be an expression, not {given}")
            return build(fields)
    return Tuple(fields)
