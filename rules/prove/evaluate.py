"""Expressions over terms: the operators' denotations, run on arrays of terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from eqsat.errors import EqsatError
from eqsat.nd import BFLOAT16
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, TupleGetItem, Var
from eqsat.relay.interpreter import evaluate_op
from eqsat.relay.relations import call_type, complete_attrs
from eqsat.relay.ty import TensorType, TupleType, Type
from eqsat.relay.values import value_type
from eqsat.relay.visitor import post_order
from eqsat.rules.prove.arrays import TermArray, lifted, wrapped
from eqsat.rules.prove.terms import REAL, NoTermError, Terms, sort_of


def inputs_of(terms: Terms, values: Mapping[Var, Any], integers: bool) -> dict[Expr, Any]:
    """A variable term for each element of each input; with ``integers`` also where they are integers."""

    def of(key: tuple[Any, ...], value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(of((*key, index), each) for index, each in enumerate(value))
        array = np.asarray(value)
        if array.dtype.kind in "iu" and not integers:
            return array
        sort = sort_of(array.dtype)
        made = np.empty(array.shape, object)
        for place in range(array.size):
            made.flat[place] = terms.make("var", (), (*key, place), sort)
        return wrapped(terms, made, array.dtype)

    return {var: of((index,), value) for index, (var, value) in enumerate(values.items())}


def evaluate_terms(terms: Terms, roots: tuple[Expr, ...], inputs: Mapping[Expr, Any]) -> list[Any]:
    """The values of expressions as arrays of terms, and tuples of them.

    Raises:
        NoTermError: A part of them has no terms.
    """
    values: dict[Expr, Any] = {}
    for node in post_order(Tuple(roots)):
        if isinstance(node, Var):
            if node not in inputs:
                raise NoTermError("a variable has no value")
            values[node] = inputs[node]
        elif isinstance(node, Constant):
            array = node.data.numpy()
            values[node] = array if array.dtype.kind in "biu" else lifted(terms, array, array.dtype)
        elif isinstance(node, Tuple):
            values[node] = tuple(values[field] for field in node.fields)
        elif isinstance(node, TupleGetItem):
            values[node] = values[node.tuple_value][node.index]
        elif isinstance(node, Call) and isinstance(node.op, Op):
            values[node] = _call(terms, node, [values[arg] for arg in node.args])
        elif not isinstance(node, Op):
            raise NoTermError(f"there are no terms for {type(node).__name__} nodes")
    return [values[root] for root in roots]


def _call(terms: Terms, call: Call, given: list[Any]) -> Any:
    op = call.op
    assert isinstance(op, Op)
    if not any(map(_has_terms, given)):
        return _lifted(terms, evaluate_op(op, call.attrs, given))
    denotation = denotation_of(op)
    try:
        result = denotation(complete_attrs(op, call.attrs), *map(_widened, given))
        return _typed(terms, result, call_type(op, call.attrs, [value_type(each) for each in given]))
    except NoTermError as error:
        raise NoTermError(f"{op.name}: {error}") from None
    except EqsatError:
        raise
    except Exception as error:  # whatever NumPy raises on objects: the operator has no terms
        raise NoTermError(f"{op.name}: {type(error).__name__}: {error}") from None


def denotation_of(op: Op) -> Callable[..., Any]:
    """What an operator computes, on arrays of terms as on arrays of numbers.

    Raises:
        NoTermError: The registry has none.
    """
    if op.denotation is None or isinstance(op.denotation, str):
        raise NoTermError(f"{op.name}: {op.denotation or 'it has no kernel'}")
    return op.denotation


def _has_terms(value: Any) -> bool:
    return any(map(_has_terms, value)) if isinstance(value, tuple) else isinstance(value, TermArray)


def _widened(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_widened, value))
    return value.astype(np.float32) if getattr(value, "dtype", None) == BFLOAT16 else value


def _lifted(terms: Terms, value: Any) -> Any:
    """Numbers as the following operators take them: floats as terms."""
    if isinstance(value, tuple):
        return tuple(_lifted(terms, each) for each in value)
    return value if value.dtype.kind in "biu" else lifted(terms, value, value.dtype)


def _typed(terms: Terms, value: Any, ty: Type) -> Any:
    """What a kernel made as an array of the dtype that the operator's type says."""
    if isinstance(value, (tuple, list)):
        if not isinstance(ty, TupleType):
            raise NoTermError("a tuple is no tensor")
        return tuple(_typed(terms, each, field) for each, field in zip(value, ty.fields, strict=True))
    if not isinstance(ty, TensorType):
        raise NoTermError("the type of the result is not known")
    if isinstance(value, np.ndarray) and value.dtype != object and not isinstance(value, TermArray):
        return _lifted(terms, value.astype(ty.dtype))
    if isinstance(value, TermArray) and value.numbers is not None:
        array = value.astype(ty.dtype)
    else:
        array = wrapped(terms, value, ty.dtype)
    sort = sort_of(ty.dtype)
    if any(each.sort != sort for each in array.objects.flat):
        raise NoTermError("the kernel gives elements of another sort")
    if sort != REAL and all(each.head == "const" for each in array.objects.flat):
        return np.array([each.data for each in array.objects.flat], ty.dtype).reshape(array.shape)
    return array


def elements(terms: Terms, value: Any) -> list[Any]:
    """All elements of a value as terms, one by one."""
    if isinstance(value, tuple):
        return [element for each in value for element in elements(terms, each)]
    array = value if isinstance(value, TermArray) else lifted(terms, value, value.dtype)
    return list(array.objects.flat)


def shapes(value: Any) -> Any:
    """The shapes and dtypes of a value."""
    return tuple(map(shapes, value)) if isinstance(value, tuple) else (value.shape, str(value.dtype))
