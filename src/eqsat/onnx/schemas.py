"""What ONNX says of its standard operators.

ONNX sets up all of its schemas when it is asked for the first one, which takes about as long as a small model does. So
eqsat keeps what it needs of them in its folder of caches, in a file for each version of ONNX and each opset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import onnx
import onnx_ir as ir
from onnx import defs

from eqsat.files import cache_folder, find_kept, keep
from eqsat.onnx.types import DTYPES

_NAMES = {dtype: f"tensor({data_type.name.lower()})" for data_type, dtype in DTYPES.items()}


class Input(NamedTuple):
    """What a schema says of one input.

    Attributes:
        name: Its name.
        type: Its type, or the name of a set of types of the schema.
        repeats: Whether any number of inputs may stand in its place.
        is_alike: Whether all these have one type.
    """

    name: str
    type: str
    repeats: bool
    is_alike: bool


class Schema(NamedTuple):
    """What ONNX says of an operator in an opset.

    Attributes:
        since: The opset that brought this version of it.
        inputs: Its inputs.
        output: The type of its first output, as for inputs.
        types: The types in each set of types.
        defaults: For each attribute its default, None where it has none.
    """

    since: int
    inputs: Sequence[Input]
    output: str
    types: Mapping[str, Sequence[str]]
    defaults: Mapping[str, Any]


_FIELDS = repr((Schema._fields, Input._fields))
"""What a file of another version of eqsat may have others of."""


@cache
def schema_of(op_type: str, opset: int) -> Schema | None:
    """Return what ONNX says of a standard operator in an opset; None if the opset does not have it."""
    row = _rows(min(opset, defs.onnx_opset_version())).get(op_type)
    if row is None:
        return None
    schema = Schema(*row)
    defaults = {name: tuple(each) if isinstance(each, list) else each for name, each in schema.defaults.items()}
    return schema._replace(inputs=[Input(*each) for each in schema.inputs], defaults=defaults)


@cache
def input_names(op_type: str, opset: int) -> tuple[str, ...]:
    """Return the names of the inputs of a standard operator, none if the opset does not have it."""
    schema = schema_of(op_type, opset)
    return () if schema is None else tuple(each.name for each in schema.inputs)


@lru_cache(maxsize=1 << 12)
def admits(op_type: str, opset: int, inputs: tuple[str | None, ...], output: str | None) -> bool:
    """Tell whether an operator takes tensors of these element types and gives one of that.

    Args:
        op_type: The standard operator; of one that ONNX does not know, everything is taken to be allowed.
        opset: The version of the standard operators.
        inputs: The element type of each input, None where it is not known or the input is left out.
        output: That of the first output.
    """
    schema = schema_of(op_type, opset)
    if schema is None:
        return True
    result = Input("", schema.output, repeats=False, is_alike=True)
    bound: dict[str, str] = {}
    for formal, dtype in (*zip(_formals(schema), inputs, strict=False), (result, output)):
        name = None if dtype is None else _NAMES.get(dtype)
        if name is None:
            continue
        if name not in schema.types.get(formal.type, (formal.type,)):
            return False
        if formal.is_alike and bound.setdefault(formal.type, name) != name:
            return False
    return True


def _formals(schema: Schema) -> Iterator[Input]:
    """Yield what is said of each input; the last one may be repeated."""
    yield from schema.inputs
    while schema.inputs and schema.inputs[-1].repeats:
        yield schema.inputs[-1]


@cache
def _rows(opset: int) -> dict[str, Any]:
    """Return the fields of each operator's schema, as they were kept or as ONNX says."""
    path = cache_folder() / "schemas" / f"onnx-{onnx.__version__}-opset-{opset}.json"
    rows: dict[str, Any] | None = find_kept(path, _FIELDS)
    if rows is None:
        rows = dict(_read(opset))
        keep(path, _FIELDS, rows)
    return rows


def _read(opset: int) -> Iterator[tuple[str, Schema]]:
    """Yield the name and the schema of each standard operator of an opset, as ONNX says."""
    for name in sorted({schema.name for schema in defs.get_all_schemas() if not schema.domain}):
        if defs.has(name, max_inclusive_version=opset):
            said = defs.get_schema(name, opset, "")
            types = {each.type_param_str: list(each.allowed_type_strs) for each in said.type_constraints}
            defaults = {name: _default(attribute) for name, attribute in said.attributes.items()}
            inputs = list(map(_input, said.inputs))
            yield name, Schema(said.since_version, inputs, said.outputs[0].type_str, types, defaults)


def _input(said: defs.OpSchema.FormalParameter) -> Input:
    repeats = said.option == defs.OpSchema.FormalParameterOption.Variadic
    return Input(said.name, said.type_str, repeats, said.is_homogeneous)


def _default(attribute: defs.OpSchema.Attribute) -> Any:
    """Return the default of an attribute, None if it has none."""
    given = attribute.default_value
    return ir.from_proto(given).value if given.name else None
