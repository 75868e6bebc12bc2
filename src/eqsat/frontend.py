"""ONNX models as Relay modules, the way TVM reads them: ``relay.frontend.from_onnx``.

Programs that write a model again use :mod:`eqsat.onnx`, which keeps what Relay has no place for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eqsat.errors import ArgumentError
from eqsat.nd import NDArray
from eqsat.relay.expr import Constant, Expr, Function, Var
from eqsat.relay.frontend import register_frontend
from eqsat.relay.infer import infer_module
from eqsat.relay.module import IRModule
from eqsat.relay.ty import TensorType
from eqsat.relay.visitor import post_order, substitute

if TYPE_CHECKING:
    import onnx_ir


@register_frontend
def from_onnx(
    model: Any,
    shape: Mapping[str, Sequence[int]] | None = None,
    dtype: str | Mapping[str, str] = "float32",
    *,
    freeze_params: bool = True,
) -> tuple[IRModule, dict[str, NDArray]]:
    """Read an ONNX model. Nodes that are not understood are calls of opaque operators.

    Args:
        model: An ``onnx.ModelProto``, the path of a file, or an ``onnx_ir.Model``; it is not changed.
        shape: Input -> its shape; others have the shape that the model says.
        dtype: Accepted as in TVM; a model says the element types of its inputs.
        freeze_params: Whether weights are constants. Otherwise they are parameters of ``main``.

    Returns:
        A module, with types, and the weights that are parameters, by name.

    Raises:
        ModelError: The model cannot be read.
        ArgumentError: There is no input of a name in ``shape``, or it has another number of dimensions.
    """
    from onnx_ir import Model

    from eqsat.onnx.files import from_bytes, load, to_bytes
    from eqsat.onnx.importer import import_model

    read = from_bytes(to_bytes(model)) if isinstance(model, Model) else load(model)  # its shapes may be set
    _set_shapes(read, shape or {})
    function = import_model(read).function
    params: dict[str, NDArray] = {}
    if not freeze_params:
        function, params = _weights_as_params(function)
    return infer_module(IRModule.from_expr(function)), params


def _set_shapes(model: onnx_ir.Model, shapes: Mapping[str, Sequence[int]]) -> None:
    """Set the shapes of inputs, and what sizes that have a name are, wherever the model names them."""
    from onnx_ir import Shape

    inputs = {value.name: value for value in model.graph.inputs}
    sizes: dict[str, int] = {}
    for name, shape in shapes.items():
        value = inputs.get(name)
        if value is None:
            raise ArgumentError(f"the model has no input {name!r}; it has {list(inputs)}")
        if value.shape is not None and len(value.shape) != len(shape):
            raise ArgumentError(f"input {name!r} has {len(value.shape)} dimensions: {tuple(shape)} is no shape of it")
        for old, new in zip(value.shape or (), shape, strict=False):
            named = getattr(old, "value", None)
            if isinstance(named, str):
                sizes[named] = int(new)
        value.shape = Shape([int(size) for size in shape])
    results = [value for node in model.graph for value in node.outputs]
    for value in (*inputs.values(), *results) if sizes else ():
        if value.shape is not None:
            value.shape = Shape([sizes.get(getattr(dim, "value", ""), dim) for dim in value.shape])


def _weights_as_params(function: Function) -> tuple[Function, dict[str, NDArray]]:
    """A function that takes as parameters the constants that have a name in the model, and their values."""
    found: dict[Expr, Var] = {}
    params: dict[str, NDArray] = {}
    for node in post_order(function):
        if isinstance(node, Constant) and node.span is not None and node.span.node is None:
            name = str(node.span)
            found[node] = Var(name, TensorType(node.data.shape, node.data.dtype))
            params[name] = node.data
    body = substitute(function.body, found)
    return Function([*function.params, *found.values()], body), params
