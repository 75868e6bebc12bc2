"""Operators whose parameters are tensors: ``dyn.reshape`` and so on, each the twin of one with attributes.

The number of dimensions of the result must follow from types; its sizes are known as far as the elements of the
parameters are. Where they are constants, the operator with attributes can take the place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eqsat.errors import TypeCheckError
from eqsat.relay.attrs import Attrs
from eqsat.relay.op.op import BuilderOf, Builds, OpPattern, Result, define, is_operand, tensor_of
from eqsat.relay.op.types import ranked
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, Type


def static_or_dynamic(static: BuilderOf[Result], dynamic: BuilderOf[Result]) -> Builds[Result]:
    """A builder of ``static`` calls that builds ``dynamic`` ones when a parameter is given as a tensor.

    Parameters of the dynamic operator that are given as numbers, or not at all, become constants.
    """
    parameters = [name for name in dynamic.op.arguments or () if name not in (static.op.arguments or ())]
    names = list(static.__signature__.parameters)
    defaults = {field.name: field.default for field in static.op.fields}

    def build(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if not any(_is_tensor(given.get(name)) for name in parameters):
            return static(*args, **kwargs)
        for name in parameters:
            value = given.get(name, defaults[name])
            given[name] = tensor_of(value)
        return dynamic(**given)

    build.__name__ = static.__name__
    build.__doc__ = f"Builds {static.op.name}, or {dynamic.op.name} when one of {parameters} is a tensor."
    build.__signature__ = static.__signature__  # type: ignore[attr-defined]
    return build


def _is_tensor(value: Any) -> bool:
    """Whether a parameter is given as a tensor; what a rule computes in its place stands for an attribute."""
    return is_operand(value) and not getattr(value, "is_computed", False)


_SCALARS = ("int", "float")
"""Kinds of attributes whose tensors have no dimensions."""


def dynamic(
    static: BuilderOf[Result],
    arguments: str,
    infer: Callable[[Any, Sequence[Type]], Type] | None = None,
    kind: OpPattern | None = None,
    least: int = 0,
) -> BuilderOf[Result]:
    """Add the twin ``dyn.f`` of an operator ``f`` and return the function that builds calls of it.

    Args:
        static: builds calls of the operator with attributes.
        arguments: the names of the twin's arguments; those that are no arguments of the operator are parameters.
        infer: the twin's type relation; by default the operator's, of parameters with the elements that are known.
        kind: the twin's ``TOpPattern``, by default the operator's.
        least: the least element of a parameter from which the type is inferred.
    """
    op: Any = static.op
    names = arguments.split()
    defaults = {field.name: field.default for field in op.fields}
    parameters = {names.index(field.name): field for field in op.fields if field.name in names}

    def as_static(attrs: Any, args: Sequence[Any], values: Mapping[int, Any]) -> list[Any]:
        """The operator's attributes and arguments in place of the twin's, whose parameters have these values."""
        found = {field.name: values[place] for place, field in parameters.items()}
        operands = [arg for place, arg in enumerate(args) if place not in parameters]
        return [Attrs({**defaults, **(attrs or {}), **found}, op.name), operands]

    def typed(attrs: Any, args: Sequence[Type], elements: Sequence[Sequence[Dim] | None]) -> Type:
        values: dict[int, Any] = {}
        for place, field in parameters.items():
            if field.kind in _SCALARS:
                ranked(args[place], 0, field.name)
                values[place] = (elements[place] or unknown(1))[0]
            else:
                values[place] = elements[place] or unknown(length(args[place], field.name))
        ty: Type = op.infer(*as_static(attrs, args, values))
        return ty

    def refine(attrs: Any, args: Sequence[Type], elements: Sequence[Sequence[Dim] | None]) -> Type | None:
        numbers = [dim for place in parameters for dim in elements[place] or () if isinstance(dim, int)]
        return typed(attrs, args, elements) if min(numbers, default=least) >= least else None

    def kernel(attrs: Any, *arrays: Any) -> Any:
        values = {
            place: arrays[place].item() if field.kind in _SCALARS else arrays[place].tolist()
            for place, field in parameters.items()
        }
        attributes, operands = as_static(attrs, arrays, values)
        return op.kernel(attributes, *operands)

    return define(
        f"dyn.{op.name}",
        arguments,
        *(field for field in op.fields if field.name not in names),
        infer=infer or (lambda attrs, args: typed(attrs, args, [None] * len(args))),
        refine=None if infer else refine,
        kernel=kernel,
        kind=OpPattern(op.attr_map["TOpPattern"]) if kind is None else kind,
        outputs=op.outputs,
        traits=op.traits,
    )


def length(ty: Type, what: str) -> int:
    """The length of a 1-D tensor of sizes, which decides the number of dimensions of the result."""
    dim = ranked(ty, 1, what).shape[0]
    if not isinstance(dim, int):
        raise TypeCheckError(f"the length of {what} must be known")
    return dim


def unknown(rank: int) -> list[Dim]:
    """So many dimensions of which nothing is known."""
    return [AnyDim()] * rank


def with_numbers(builder: BuilderOf[Result], **numbers: tuple[Any, str]) -> Builds[Result]:
    """A builder of the same calls to which some arguments may also be given as numbers, or not at all.

    Args:
        builder: builds the calls.
        numbers: the name of each such argument -> the number in its place where none is given (None if the argument
            must be given), and the dtype of the constant.
    """
    names = list(builder.__signature__.parameters)
    signature = [
        each.replace(default=numbers[name][0]) if name in numbers and numbers[name][0] is not None else each
        for name, each in builder.__signature__.parameters.items()
    ]

    def build(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(names):
            return builder(*args, **kwargs)  # which says so
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        for name, (default, dtype) in numbers.items():
            value = given.get(name, default)
            if value is not None:
                given[name] = tensor_of(value, dtype)
        return builder(**given)

    build.__name__ = builder.__name__
    build.__doc__ = f"Builds {builder.op.name}; {', '.join(numbers)} may be numbers."
    build.__signature__ = builder.__signature__.replace(parameters=signature)  # type: ignore[attr-defined]
    return build
