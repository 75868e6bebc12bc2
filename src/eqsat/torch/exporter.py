"""From functions of the IR back to an fx graph."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np
import sympy
import torch
from torch import fx

from eqsat.errors import ModelError
from eqsat.relay.expr import Call, Constant, Expr, Function, Op, Tuple, TupleGetItem
from eqsat.relay.infer import infer_types
from eqsat.relay.inferencer import Inferencer
from eqsat.relay.results import results_of
from eqsat.relay.traits import Trait
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import TupleType
from eqsat.relay.visitor import post_order
from eqsat.torch.importer import Imported, Origin, gives_size
from eqsat.torch.opaque import NATIVE_NAMESPACES, OpaqueNode, Slot, mapped
from eqsat.torch.rows import Aten, Dialect, Written, form_of, overload
from eqsat.torch.types import TORCH_DTYPES, Sizes
from eqsat.torch.writing import with_bias


class Rebuilt:
    """An fx graph that takes the place of another, as it is written.

    Args:
        given: The graph that it takes the place of.
        sizes: The sizes of that graph.
        mode: The fake tensors by which types of what is written are found.
        dialect: Which operators may be written.

    Attributes:
        graph: What is written so far.
        env: Nodes of the given graph -> what stands for them.
        kept: Names that are kept for what others refer to by them.
        stored: Constants that ``get_attr`` nodes of the graph give, by name.
    """

    def __init__(self, given: fx.Graph, sizes: Sizes, mode: Any, dialect: Dialect):
        self.given, self.sizes, self.mode, self.dialect = given, sizes, mode, dialect
        self.graph = fx.Graph(tracer_cls=given._tracer_cls)
        self.graph.set_codegen(given._codegen)
        self.env: dict[fx.Node, Any] = {}
        self.kept: set[str] = set()
        self.stored: dict[str, torch.Tensor] = {}
        self._names, self._used = {node.name for node in given.nodes}, set[str]()
        self._of_size: dict[sympy.Expr, fx.Node] = {}
        self._symbolic = {
            node.meta["val"].node.expr: node
            for node in reversed(given.nodes)
            if isinstance(node.meta.get("val"), torch.SymInt)
        }
        self._constants: dict[tuple[Any, ...], fx.Node] = {}
        self._sized: dict[sympy.Expr, tuple[fx.Node, int]] = {}
        self.device = next(
            (device for node in given.nodes if (device := _device(node)) is not None), torch.device("cpu")
        )

    # ---- nodes as they are

    def copy(self, node: fx.Node) -> fx.Node:
        """Copy a node of the given graph."""
        made: fx.Node = self.graph.node_copy(node, self.new)
        made.name = node.name  # exported programs call inputs as their functions do, by names of builtins, too
        self._used.add(made.name)
        self.env[node] = made
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            self._of_size.setdefault(value.node.expr, made)
        elif node.op == "placeholder" and isinstance(value, torch.Tensor):
            for axis, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt):
                    self._sized.setdefault(size.node.expr, (made, axis))
        return made

    def new(self, node: fx.Node) -> Any:
        """What stands for a node of the given graph; those that give sizes are written when they are asked for."""
        if node not in self.env:
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt):
                return self.size(value.node.expr)
            waiting = [node]
            while waiting:
                below = [each for each in waiting[-1].all_input_nodes if each not in self.env and self._is_plain(each)]
                if below:
                    waiting.extend(below)
                else:
                    self.copy(waiting.pop())
        return self.env[node]

    @staticmethod
    def _is_plain(node: fx.Node) -> bool:
        """Whether a node gives a number that is no size."""
        return gives_size(node) and not isinstance(node.meta["val"], torch.SymInt)

    # ---- sizes

    def size(self, expr: sympy.Expr) -> Any:
        """A number, or the node that gives a size."""
        if expr.is_Integer:
            return int(expr)
        if expr in self._of_size:
            return self._of_size[expr]
        if expr in self._sized:
            made = self._call(overload("aten.sym_size.int"), self._sized[expr], {})
        elif expr.is_Add or expr.is_Mul:
            join = operator.add if expr.is_Add else operator.mul
            made, *others = map(self.size, expr.args)
            for other in others:
                made = self._call(join, (made, other), {})
        else:
            found = self._symbolic.get(expr)
            if found is None or any(each not in self.env and not gives_size(each) for each in found.all_input_nodes):
                raise ModelError(f"no value gives the size {expr} of a tensor")
            return self.copy(found)
        self._of_size[expr] = made
        return made

    # ---- what is written

    def write(self, function: Function, imported: Imported) -> None:
        """Write what a function computes, and bind the nodes whose results it gives."""
        _Writer(self, function, imported).write()

    def _call(
        self, target: Any, args: Any, kwargs: Any, name: str | None = None, source: fx.Node | None = None
    ) -> fx.Node:
        """Write a call, with the type of its result and the metadata of what it takes the place of."""
        made = self.create("call_function", target, tuple(args), dict(kwargs), name or self.name_of(target, source))
        if source is not None:
            made.meta = copy(source.meta)
            made.meta.pop("tensor_meta", None)
        given = lambda value: value.meta["val"] if isinstance(value, fx.Node) else value  # noqa: E731
        try:
            with self.mode, torch._dispatch.python.enable_python_dispatcher():
                made.meta["val"] = target(*fx.map_arg(made.args, given), **fx.map_arg(made.kwargs, given))
        except Exception as error:  # whatever PyTorch raises
            raise ModelError(f"{target} cannot be written here: {error}") from error
        return made

    def create(self, op: str, target: Any, args: Any, kwargs: Any, name: str) -> fx.Node:
        """Write a node under a name: fx would change those that were given before, or are Python's own."""
        made: fx.Node = self.graph.create_node(op, target, args, kwargs, name=name)
        made.name = name
        return made

    def name_of(self, target: Any, source: fx.Node | None) -> str:
        """A name for a node: that of what it takes the place of, or one that neither graph has."""
        if source is not None and source.name not in self.kept and source.name in self._names:
            self._names.discard(source.name)
            self._used.add(source.name)
            return str(source.name)
        return self._fresh(
            (str(target).split(".")[1] if isinstance(target, torch._ops.OpOverload) else target.__name__).strip("_")
        )

    def _fresh(self, base: str) -> str:
        """A name that neither graph has."""
        name, count = base, 0
        while name in self._names or name in self._used:
            count += 1
            name = f"{base}_{count}"
        self._used.add(name)
        return name

    def constant(self, constant: Constant) -> fx.Node:
        """A node that gives a constant; it is stored with the graph unless one number fills it."""
        data = constant.data.numpy()
        first = data.reshape(-1)[:1]
        key = (data.dtype, data.shape, constant.data.digest())
        if key in self._constants:
            return self._constants[key]
        if data.size and (data == first).all():
            more = {
                "dtype": TORCH_DTYPES[data.dtype.name],
                "layout": torch.strided,
                "device": self.device,
                "pin_memory": False,
            }
            args = (list(data.shape), np.asarray(first[0]).item())
            made = self._call(overload("aten.full.default"), args, more)
        else:
            made = self._stored(data)
        self._constants[key] = made
        return made

    def _stored(self, data: np.ndarray[Any, Any]) -> fx.Node:
        name = self._fresh("eqsat_constant")
        dtype = TORCH_DTYPES[data.dtype.name]
        if dtype is torch.bfloat16:
            tensor = torch.from_numpy(data.view(np.int16).copy()).view(dtype)
        else:
            tensor = torch.from_numpy(data.copy())
        self.stored[name] = tensor = tensor.to(self.device)
        made = self.create("get_attr", name, (), {}, name)
        made.meta["val"] = self.mode.from_tensor(tensor, static_shapes=True)
        return made

    def release(self, made: fx.Node, name: str) -> None:
        """Have a node give up a name."""
        if made.name == name:
            made.name = self._fresh(name)

    def named(self, made: fx.Node, source: fx.Node) -> fx.Node:
        """The same tensor under the name of ``source``."""
        return self._call(overload("aten.alias.default"), (made,), {}, source.name, source)

    def owned(self, made: fx.Node, name: str | None, source: fx.Node) -> fx.Node:
        """A copy of a tensor, laid out as that of ``source``."""
        formats = (torch.contiguous_format, torch.channels_last)
        value = source.meta["val"]
        for each in formats:
            if value.is_contiguous(memory_format=each):
                return self._call(_CLONE, (made,), {"memory_format": each}, name, source)
        return self._call(_CLONE, (made,), {}, name, source)


_CLONE = overload("aten.clone.default")


def _device(node: fx.Node) -> torch.device | None:
    value = node.meta.get("val")
    return value.device if isinstance(value, torch.Tensor) else None


def strides(value: torch.Tensor) -> list[str]:
    """How a tensor is laid out: the strides of its axes of more than one element."""
    pairs = zip(value.shape, value.stride(), strict=True)
    return [str(stride) for size, stride in pairs if not (isinstance(size, int) and size == 1)]


_MAY_ALIAS = frozenset(
    f"aten.{name}"
    for name in (
        "reshape.default", "contiguous.default", "to.dtype", "to.dtype_layout", "to.device", "dropout.default",
        "flatten.using_ints", "view_as.default", "expand_as.default", "type_as.default", "_reshape_alias.default",
    )
)  # fmt: skip


def storage(node: fx.Node) -> fx.Node:
    """The node in whose memory the result of a node is, or may be."""
    while node.op == "call_function" and node.args and isinstance(node.args[0], fx.Node):
        target = node.target
        if target is not operator.getitem and str(target) not in _MAY_ALIAS:
            if not isinstance(target, torch._ops.OpOverload) or not target._schema.arguments:
                break
            alias, results = target._schema.arguments[0].alias_info, target._schema.returns
            if alias is None or (alias.is_write and not (results and results[0].alias_info)):
                break
        elif target is operator.getitem and storage_of_parts(node.args[0]) is node.args[0]:
            break
        node = node.args[0]
    return node


def storage_of_parts(node: fx.Node) -> fx.Node:
    """As :func:`storage` of a node of several outputs: the node itself if it computes them."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload) and node.args and isinstance(node.args[0], fx.Node):
        alias = target._schema.arguments[0].alias_info
        if alias is not None and not alias.is_write:
            return node.args[0]
    return node


class _Writer:
    def __init__(self, rebuilt: Rebuilt, function: Function, imported: Imported):
        self.rebuilt, self.imported = rebuilt, imported
        self.types = infer_types(function)
        self.typing = Inferencer(self.types)
        self.results = results_of(function.body, self.types[function.body])
        for result in self.results:
            self.typing.run(result)
        self.written = Written(self.types, rebuilt.dialect)
        self.uses = Counter(self.results)
        for expr in post_order(*self.results):
            self.uses.update(expr.children())
        self.forms: dict[Call, Aten | Expr] = {}
        self.parts: dict[Expr, Tuple] = {}  # the outputs of what gives several
        self.nodes: dict[Expr, Any] = {
            param: rebuilt.env[node] for param, node in zip(function.params, imported.inputs, strict=True)
        }
        self.names: dict[Expr, str] = {}

    def write(self) -> None:
        roots = [self._resolve(result) for result in self.results]
        for root, node in zip(roots, self.imported.results, strict=True):
            if isinstance(root, (Call, TupleGetItem)):
                self.names.setdefault(root, node.name)
        self.rebuilt.kept |= set(self.names.values())
        effects: list[int] = []
        place = {node: index for index, node in enumerate(self.imported.results)}
        for expr in post_order(*roots, children=self._operands):
            if expr not in self.nodes and isinstance(expr, (Call, TupleGetItem)):
                self.nodes[expr] = self._write(expr)
                opaque = _opaque(expr)
                if opaque is not None and not opaque.is_pure:
                    effects.append(place[opaque.node])
                    self.rebuilt.env[opaque.node] = self.nodes[expr]
        if effects != sorted(effects):
            raise ModelError("operators with effects would be executed in another order")
        for root, node in zip(roots, self.imported.results, strict=True):
            if node not in self.rebuilt.env:
                self.rebuilt.env[node] = self._leaf(root)

    # ---- what to write

    def _form(self, call: Call) -> Aten | Expr:
        if call not in self.forms:
            self.forms[call] = self._found(call)
        return self.forms[call]

    def _found(self, call: Call) -> Aten | Expr:
        opaque = _opaque(call)
        if opaque is not None:
            return Aten(opaque.node.target, opaque.args, opaque.kwargs)
        form: Aten | Expr | None = None
        for index in range(len(call.args)):
            inner = call.args[index]
            if form is None and self.uses[inner] <= 1:
                together = with_bias(call, inner, self.written)
                form = together if self.written.allows(together) else None
        if form is None:
            form = form_of(call, self.written)
        if form is None:
            name = call.op.name if isinstance(call.op, Op) else "a function"
            raise ModelError(f"PyTorch has no operator for {name} with these attributes: {call.attrs}")
        for each in _exprs(form):
            if each not in self.types:
                self.typing.run(each)
        return form

    def _resolve(self, expr: Expr) -> Expr:
        """What an expression is written as: itself, or the one that its form names."""
        while True:
            if isinstance(expr, Call):
                form = self._form(expr)
                if isinstance(form, Aten):
                    return expr
                if form.span is None:
                    form.span = expr.span
                expr = form
            elif isinstance(expr, TupleGetItem) and isinstance(expr.tuple_value, Tuple):
                expr = expr.tuple_value.fields[expr.index]
            elif isinstance(expr, TupleGetItem) and self._is_first(expr):
                return expr.tuple_value
            else:
                return expr

    def _is_first(self, part: TupleGetItem) -> bool:
        """Whether an output is what the node of its call gives."""
        of = part.tuple_value
        form = self._form(of) if isinstance(of, Call) else None
        if not isinstance(form, Aten) or not form.is_first:
            return False
        if part.index:
            raise ModelError(f"an output of {form.target} is used that it does not have")
        return True

    def _operands(self, expr: Expr) -> Sequence[Expr]:
        if isinstance(expr, TupleGetItem):
            return (self._resolve(expr.tuple_value),)
        if not isinstance(expr, Call):
            return ()
        opaque = _opaque(expr)
        found = expr.args if opaque is not None else list(_exprs(self._form(expr)))
        return [self._resolve(each) for operand in found for each in self._fields(operand)]

    def _fields(self, expr: Expr) -> Sequence[Expr]:
        """The fields of a tuple, or what is none."""
        ty = self.types.get(expr)
        if isinstance(expr, Tuple):
            return expr.fields
        if not isinstance(ty, TupleType):
            return (expr,)
        if expr not in self.parts:
            self.parts[expr] = Tuple([TupleGetItem(expr, index) for index in range(len(ty.fields))])
            self.typing.run(self.parts[expr])
        return self.parts[expr].fields

    # ---- writing

    def _write(self, expr: Expr) -> fx.Node:
        origin = _source(expr)
        name = self.names.get(expr)
        if isinstance(expr, TupleGetItem):
            return self.rebuilt._call(
                operator.getitem, (self.nodes[self._resolve(expr.tuple_value)], expr.index), {}, name, origin
            )
        assert isinstance(expr, Call)
        opaque = _opaque(expr)
        if opaque is not None:
            return self._write_opaque(expr, opaque, name)
        form = self._form(expr)
        assert isinstance(form, Aten)
        args, kwargs = mapped(form.args, self._leaf), mapped(form.kwargs, self._leaf)
        if form.output is None:
            return self._call(form.target, args, kwargs, name, origin)
        whole = self.rebuilt._call(form.target, args, kwargs, None, origin)
        return self.rebuilt._call(operator.getitem, (whole, form.output), {}, name, origin)

    def _call(self, target: Any, args: Any, kwargs: Any, name: str | None, origin: fx.Node | None) -> fx.Node:
        rebuilt = self.rebuilt
        if target is not _VIEW:
            return rebuilt._call(target, args, kwargs, name, origin)
        if rebuilt.dialect.composite:  # how the results of these are laid out is known when they run
            return rebuilt._call(_RESHAPE, args, kwargs, name, origin)
        try:
            return rebuilt._call(target, args, kwargs, name, origin)
        except ModelError:  # the tensor is not laid out so that this is possible without a copy
            rebuilt.graph.erase_node(next(reversed(rebuilt.graph.nodes)))
            copied = rebuilt._call(_CLONE, args[:1], {"memory_format": torch.contiguous_format}, None, origin)
            return rebuilt._call(target, (copied, *args[1:]), kwargs, name, origin)

    def _write_opaque(self, call: Call, opaque: OpaqueNode, name: str | None) -> fx.Node:
        """The node as it was, over operands that are laid out as its were."""
        rebuilt, operands = self.rebuilt, []
        # by a rule, or it stands for an equal node over operands of other types
        types = tuple([self.types[arg] for arg in call.args])
        is_made = opaque.node.graph is not rebuilt.given or types != opaque.operand_types
        sees_layout = not is_made and _sees_layout(opaque.node)
        for arg, source in zip(call.args, opaque.operands, strict=True):
            made, was = self._leaf(arg), source.meta.get("val")
            now = made.meta.get("val")
            are_tensors = sees_layout and isinstance(was, torch.Tensor) and isinstance(now, torch.Tensor)
            if are_tensors and strides(now) != strides(was):
                made = rebuilt.owned(made, None, source)
            operands.append(made)

        def leaf(value: Any) -> Any:
            if isinstance(value, Slot):
                return operands[value.index]
            return rebuilt.new(value) if isinstance(value, fx.Node) else self._leaf(value)

        node = opaque.node
        args, kwargs = mapped(opaque.args, leaf), mapped(opaque.kwargs, leaf)
        if is_made:
            return rebuilt._call(node.target, args, kwargs, name, _source(call))
        made = rebuilt.create(node.op, node.target, args, kwargs, name or rebuilt.name_of(node.target, node))
        made.meta = copy(node.meta)
        return made

    def _leaf(self, value: Any) -> Any:
        """An argument of a node: a node for an expression or size, a number for what is one."""
        if isinstance(value, AnyDim):
            return self.rebuilt.size(self.imported.sizes.expression(value))
        if not isinstance(value, Expr):
            return int(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if isinstance(self.types.get(value), TupleType) and value not in self.nodes:
            return [self._leaf(each) for each in self._fields(value)]
        value = self._resolve(value)
        return self.rebuilt.constant(value) if isinstance(value, Constant) else self.nodes[value]


def _sees_layout(node: fx.Node) -> bool:
    """Whether what a node gives may depend on how its operands are laid out in memory."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace not in NATIVE_NAMESPACES:
        return True
    return any(argument.alias_info is not None for argument in target._schema.arguments)


_VIEW, _RESHAPE = overload("aten.view.default"), overload("aten.reshape.default")


def _source(expr: Expr) -> fx.Node | None:
    """The call that an expression takes the place of, if there is one."""
    node = expr.span.node if isinstance(expr.span, Origin) else None
    return node if isinstance(node, fx.Node) and node.op == "call_function" else None


def _opaque(expr: Expr) -> OpaqueNode | None:
    if isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.has(Trait.FOREIGN):
        node = expr.attrs["node"]  # type: ignore[index]
        return node if isinstance(node, OpaqueNode) else None
    return None


def _exprs(form: Aten | Expr) -> Iterator[Expr]:
    """The expressions that a form names."""
    if isinstance(form, Expr):
        yield form
        return
    found: list[Expr] = []
    mapped(
        (tuple(form.args), dict(form.kwargs)), lambda value: found.append(value) if isinstance(value, Expr) else None
    )
    yield from found
