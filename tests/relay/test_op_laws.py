"""Every operator: what its kernel computes has the type its relation infers, with unknown dimensions too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat import relay
from eqsat.errors import TypeCheckError
from eqsat.relay.expr import Op
from eqsat.relay.interpreter import evaluate_op
from eqsat.relay.op.op import make_attrs
from eqsat.relay.relations import call_type
from eqsat.relay.traits import Trait
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import TensorType, TupleType, Type

from .op_cases import CASES

# The number of dimensions of their results is the size of an argument.
NEEDS_SIZES = ["collapse_sum_to", "gather_nd", "scatter_nd", "squeeze"]
NEEDS_SIZES += [f"dyn.{name}" for name in ("broadcast_to", "full", "ones", "reshape", "squeeze", "tile", "zeros")]
NEEDS_SIZES += ["dyn.sparse_to_dense", "dyn.strided_slice", "nn.contrib_dense_pack"]

OURS = sorted(name for name, op in Op._registry.items() if op.kernel is not None and not op.has(Trait.FOREIGN))


# ---- the laws


def type_of(value: Any, dim: Callable[[int], Any] = lambda size: size) -> Type:
    if isinstance(value, tuple):
        return TupleType([type_of(field, dim) for field in value])
    return TensorType([dim(size) for size in value.shape], value.dtype.name)


def conforms(value: Any, ty: Type, sizes: dict[str, int]) -> bool:
    """Whether ``value`` is of type ``ty`` when its named dimensions have the given ``sizes``."""
    if isinstance(ty, TupleType):
        return len(value) == len(ty.fields) and all(
            conforms(field, each, sizes) for field, each in zip(value, ty.fields, strict=True)
        )
    assert isinstance(ty, TensorType)
    wanted = [sizes.get(dim.name or "") if isinstance(dim, AnyDim) else dim for dim in ty.shape]
    fits = len(wanted) == value.ndim and all(w in (None, size) for w, size in zip(wanted, value.shape, strict=True))
    return fits and value.dtype.name == ty.dtype


def inferred_type(op: Op, attrs: Any, types: list[Type]) -> Type | None:
    """What is inferred, None where the relation says that a size must be known."""
    try:
        return call_type(op, attrs, types)
    except TypeCheckError as error:
        if "must be known" in str(error):
            return None
        raise


@pytest.mark.parametrize("name", OURS)
def test_kernel_agrees_with_type_relation(name: str) -> None:
    op = Op.get(name)

    @given(st.data())
    @settings(max_examples=8, deadline=None)
    def law(data: st.DataObject) -> None:
        arguments, given_attrs = CASES[name](data.draw)
        attrs = make_attrs(op, given_attrs)
        before = [np.copy(a) for a in arguments if not isinstance(a, tuple)]
        result = evaluate_op(op, attrs, arguments)
        static = call_type(op, attrs, [type_of(argument) for argument in arguments])
        assert conforms(result, static, {}), f"{static} against {type_of(result)}"
        after = [a for a in arguments if not isinstance(a, tuple)]
        assert all(np.array_equal(x, y, equal_nan=x.dtype.kind == "f") for x, y in zip(before, after, strict=True))

    law()


@pytest.mark.parametrize("name", OURS)
def test_unknown_dimensions_never_contradict_the_result(name: str) -> None:
    """With some sizes replaced by names, the type inferred still holds of the result: dims keep their names."""
    op = Op.get(name)

    @given(st.data())
    @settings(max_examples=8, deadline=None)
    def law(data: st.DataObject) -> None:
        arguments, given_attrs = CASES[name](data.draw)
        attrs = make_attrs(op, given_attrs)
        hidden = data.draw(st.sets(st.integers(0, 16), max_size=3))
        masked = [type_of(a, lambda size: AnyDim(f"n{size}") if size in hidden else size) for a in arguments]
        inferred = inferred_type(op, attrs, masked)
        if inferred is None:
            assert name in NEEDS_SIZES
            return
        assert conforms(evaluate_op(op, attrs, arguments), inferred, {f"n{size}": size for size in hidden}), inferred

    law()


def test_every_operator_has_a_case() -> None:
    assert sorted(set(OURS) ^ set(CASES)) == []


def test_names_of_the_python_side() -> None:
    assert relay.op.nn.conv2d is relay.nn.conv2d
    assert relay.op.add is relay.add
    assert relay.op.op.get("nn.conv2d") is relay.op.get("nn.conv2d")
    assert relay.op.transform.reshape is relay.reshape
    assert relay.op.tensor.sqrt is relay.sqrt
