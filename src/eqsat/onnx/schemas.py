"""The element types that standard operators of ONNX take and give."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from onnx.defs import OpSchema, SchemaError, get_schema

from eqsat.onnx.types import DTYPES

_NAMES = {dtype: f"tensor({data_type.name.lower()})" for data_type, dtype in DTYPES.items()}


@lru_cache(maxsize=1 << 12)
def admits(op_type: str, opset: int, inputs: tuple[str | None, ...], output: str | None) -> bool:
    """Tell whether an operator takes tensors of these element types and gives one of that.

    Args:
        op_type: The standard operator; of one that ONNX does not know, everything is taken to be allowed.
        opset: The version of the standard operators.
        inputs: The element type of each input, None where it is not known or the input is left out.
        output: That of the first output.
    """
    try:
        schema = get_schema(op_type, opset, "")
    except SchemaError:
        return True
    allowed = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    bound: dict[str, str] = {}
    for formal, dtype in (*zip(_formals(schema), inputs, strict=False), (schema.outputs[0], output)):
        name = None if dtype is None else _NAMES.get(dtype)
        if name is None:
            continue
        if name not in allowed.get(formal.type_str, (formal.type_str,)):
            return False
        if formal.is_homogeneous and bound.setdefault(formal.type_str, name) != name:
            return False
    return True


def _formals(schema: OpSchema) -> Iterator[OpSchema.FormalParameter]:
    """Yield what is said of each input; the last one may be repeated."""
    yield from schema.inputs
    while schema.inputs and schema.inputs[-1].option == OpSchema.FormalParameterOption.Variadic:
        yield schema.inputs[-1]
