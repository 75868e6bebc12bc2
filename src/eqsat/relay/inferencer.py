"""The walk over a graph that finds the types of its nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from eqsat.errors import TypeCheckError
from eqsat.relay.adt import Constructor, Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from eqsat.relay.elements import Elements
from eqsat.relay.expr import Call, Constant, Expr, Function, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from eqsat.relay.generics import UNKNOWN, compatible, join, solve, substitute_types
from eqsat.relay.module import IRModule
from eqsat.relay.references import RefCreate, RefRead, RefWrite
from eqsat.relay.relations import call_type, complete_attrs, refined_type
from eqsat.relay.solver import Solver
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import FuncType, IncompleteType, RefType, TensorType, TupleType, Type, TypeCall, TypeVar, is_static
from eqsat.relay.visitor import post_order


class _Binding(Expr):
    """A point in the schedule at which parameters of a called function literal, or variables of a match, get types."""

    __slots__ = ("binder",)

    def __init__(self, binder: Call | Match):
        self._init()
        self.binder = binder


class Inferencer:
    """Finds the types of nodes; each call of :meth:`run` adds to what is known.

    Args:
        types: Types of nodes that are known; grows.
        module: Where GlobalVars are looked up.
        env: Types of variables, instead of their annotations.
        names: Of dimensions that operators leave unknown, each used once; None to leave them without.

    Attributes:
        elements: What is known of the elements of small integer tensors in the graphs.
    """

    def __init__(
        self,
        types: dict[Expr, Type],
        module: IRModule | None = None,
        env: Mapping[Var, Type] | None = None,
        names: Iterator[str] | None = None,
    ):
        self.types = types
        self.module = module or IRModule()
        self.names = names
        self.var_types: dict[Var, Type] = dict(env or {})
        self.elements = Elements(types)

    def run(self, root: Expr) -> None:
        """Find the types of ``root`` and of what is below it, down to nodes whose types are known.

        Raises:
            TypeCheckError: As for :func:`eqsat.relay.infer.infer_types`.
        """
        pending = _schedule(root, self.types)
        if self.names is not None and any(type(node) in (Function, Match) for node in pending if node is not root):
            self.names = None
        pending = self._sweep(pending)
        while pending:
            left = self._sweep(pending)
            if len(left) == len(pending):
                self._solve([node for node in left if type(node) is not _Binding])
                break
            pending = left

    def _sweep(self, order: list[Expr]) -> list[Expr]:
        """Find what types can be found now, in one pass; return the nodes that are left, in order."""
        left = []
        for node in order:
            ty = self._type_of(node)
            if ty is None:
                left.append(node)
            elif type(node) not in (Op, _Binding):
                self._note(node, ty)
        return left

    def _note(self, node: Expr, ty: Type) -> None:
        if type(node) is Call:
            ty = ty if self.names is None else named_dims(ty, self.names)
            self.elements.look_at(node, ty)
        self.types[node] = ty

    def _solve(self, nodes: Sequence[Expr]) -> None:
        """Find the types of nodes that depend on each other."""
        left = Solver(
            self.types,
            self._type_of,
            self._note,
            declared=self._declared,
            function=lambda var: self.module[var],
            name=_callee_text,
        ).run(nodes)
        if left:
            raise TypeCheckError(self._why(left[0]))
        for node in nodes:
            self.types[node] = self.types.pop(node)  # operands before users

    def _type_of(self, node: Expr) -> Type | None:
        early = _EARLY_RULES.get(type(node))
        if early is not None:
            return early(self, node)
        rule = _RULES.get(type(node))
        if rule is None:
            raise TypeCheckError(f"type inference does not know {type(node).__name__} nodes")
        types = self._known(node.children())
        return None if types is None else rule(self, node, *types)

    def _known(self, nodes: Sequence[Expr]) -> list[Type] | None:
        """Return the types of nodes, None unless all are known."""
        return [self.types[node] for node in nodes] if all(map(self.types.__contains__, nodes)) else None

    def _call(self, call: Call) -> Type | None:
        op = call.op
        arg_types = self._known(call.args)
        if type(op) is Op:
            if arg_types is None:
                self._deduce(call, op)
                arg_types = self._known(call.args)
            if arg_types is None:
                return None
            ty = call_type(op, call.attrs, arg_types)
            if op.refine is None:
                return ty
            return refined_type(op, call.attrs, arg_types, [self.elements.sizes(arg) for arg in call.args]) or ty
        callee = self.types.get(op)
        if callee is None or arg_types is None:
            return None
        return UNKNOWN if isinstance(callee, IncompleteType) else _apply(callee, arg_types, op)

    def _deduce(self, call: Call, op: Op) -> None:
        if op.deduce is None:
            return
        arg_types = [self.types.get(arg) for arg in call.args]
        deduced = op.deduce(complete_attrs(op, call.attrs), arg_types)
        for arg, old, new in zip(call.args, arg_types, deduced, strict=True):
            marks, source = _behind_marks(arg)
            if old is None and new is not None and isinstance(source, Var):
                self.types[source] = self.var_types[source] = new
                self.types.update(dict.fromkeys(marks, new))

    def _bind(self, node: _Binding) -> Type | None:
        if isinstance(node.binder, Match):
            return self._bind_clauses(node.binder)
        call, function = node.binder, node.binder.op
        arg_types = self._known(call.args)
        if arg_types is None or not isinstance(function, Function):
            return None
        for param, ty in zip(function.params, arg_types, strict=False):
            if param.type_annotation in (None, ty):  # equal types may differ in the dtype of a dimension
                self.var_types.setdefault(param, ty)
        return UNKNOWN

    def _bind_clauses(self, node: Match) -> Type | None:
        data = self.types.get(node.data)
        if data is None:
            return None
        for clause in node.clauses:
            for variable, ty in _bound_types(clause.lhs, data):
                if variable.type_annotation is not None and not compatible(variable.type_annotation, ty):
                    raise TypeCheckError(f"%{variable.name_hint}: {variable.type_annotation} is matched with {ty}")
                self.var_types.setdefault(variable, ty)
        return UNKNOWN

    def _var(self, node: Var) -> Type | None:
        return self.types.get(node) or self._declared(node)

    def _declared(self, variable: Var) -> Type | None:
        """Return the type that a variable is declared to have; ``_`` says as much as no annotation."""
        annotation = variable.type_annotation
        return self.var_types.get(variable) or (None if type(annotation) is IncompleteType else annotation)

    def _global_var(self, node: GlobalVar) -> Type | None:
        if node.name_hint not in self.module:
            raise TypeCheckError(f"@{node.name_hint} is called but the module has no such function")
        function = self.module[node.name_hint]
        return function._checked_type or function.type_annotation

    def _function(self, node: Function, *types: Type) -> Type:
        *params, body = types
        if node.ret_type is not None and not compatible(node.ret_type, body):
            raise TypeCheckError(f"a function declared to give {node.ret_type} gives {body}")
        result = body if node.ret_type is None else join(body, node.ret_type)
        return FuncType(params, result, node.type_params)

    def _let(self, node: Let) -> Type | None:
        value = self.types.get(node.value)
        if node.var not in self.types:
            declared = node.value.type_annotation if isinstance(node.value, Function) else None
            ty = value or declared
            if ty is None:
                return None
            if node.var.type_annotation is not None and not compatible(node.var.type_annotation, ty):
                raise TypeCheckError(f"let %{node.var.name_hint}: {node.var.type_annotation} is bound to {ty}")
            self.types[node.var] = self.var_types[node.var] = ty
        return self.types.get(node.body) if value is not None else None

    def _tuple_get_item(self, node: TupleGetItem, ty: Type) -> Type:
        if isinstance(ty, IncompleteType):
            return ty
        if not isinstance(ty, TupleType):
            raise TypeCheckError(f"projection .{node.index} of a value that is no tuple: {ty}")
        if not 0 <= node.index < len(ty.fields):
            raise TypeCheckError(f"projection .{node.index} of a tuple of {len(ty.fields)} fields: {ty}")
        return ty.fields[node.index]

    def _if(self, node: If, cond: Type, true: Type, false: Type) -> Type:
        if not compatible(cond, TensorType((), "bool")):
            raise TypeCheckError(f"the condition of an if must be a bool scalar, not {cond}")
        if not compatible(true, false):
            raise TypeCheckError(f"the branches of an if differ in type: {true} and {false}")
        return join(true, false)

    def _match(self, node: Match, *types: Type) -> Type:
        result: Type = UNKNOWN
        for clause in node.clauses:
            ty = self.types[clause.rhs]
            if not compatible(result, ty):
                raise TypeCheckError(f"the clauses of a match differ in type: {result} and {ty}")
            result = join(result, ty)
        return result

    def _constructor(self, node: Constructor) -> Type:
        if node.tag < 0:
            raise TypeCheckError(f"constructor {node.name_hint} belongs to no definition of {node.belong_to}")
        return node.type

    def _why(self, node: Expr) -> str:
        missing = [child for child in node.children() if isinstance(child, Var) and child not in self.types]
        variable = node if isinstance(node, Var) else missing[0] if missing else None
        if isinstance(node, GlobalVar):
            return f"@{node.name_hint} has no type yet: annotate its parameters and result, or infer its module"
        if variable is not None:
            name = variable.name_hint
            return f"unable to infer the type of variable %{name}: annotate it, e.g. relay.var({name!r}, shape=...)"
        what = node.op.name if isinstance(node, Call) and isinstance(node.op, Op) else type(node).__name__
        return f"unable to infer the type of a {what} node: the types of its arguments depend on themselves"


_EARLY_RULES: dict[type[Expr], Callable[[Inferencer, Any], Type | None]] = {
    _Binding: Inferencer._bind,
    Call: Inferencer._call,
    Let: Inferencer._let,
    Var: Inferencer._var,
}
"""The rules that do not need the types of all children."""

_RULES: dict[type[Expr], Callable[..., Type | None]] = {
    Constant: lambda inferencer, node: TensorType(node.data.shape, node.data.dtype),
    Constructor: Inferencer._constructor,
    Function: Inferencer._function,
    GlobalVar: Inferencer._global_var,
    If: Inferencer._if,
    Match: Inferencer._match,
    Op: lambda inferencer, node: UNKNOWN,
    RefCreate: lambda inferencer, node, value: RefType(value),
    RefRead: lambda inferencer, node, ref: ref.value if isinstance(ref, RefType) else UNKNOWN,
    RefWrite: lambda inferencer, node, ref, value: TupleType(()),
    Tuple: lambda inferencer, node, *fields: TupleType(fields),
    TupleGetItem: Inferencer._tuple_get_item,
}
"""The rules that are given the types of the children."""


def _schedule(root: Expr, known: Mapping[Expr, Type]) -> list[Expr]:
    """Return the nodes that are not ``known`` in post-order.

    Arguments come before a function literal that is called on them, for they decide the types of its parameters.
    """

    def unknown(node: Expr) -> list[Expr]:
        return [child for child in _below(node) if child not in known]

    if root in known or not unknown(root):  # as where a graph is made node by node
        return [] if root in known else [root]
    return post_order(root, children=unknown)


def _below(node: Expr) -> Sequence[Expr]:
    if type(node) is Call:
        if type(node.op) is Op:
            return node.args
        return (*node.args, _Binding(node), node.op) if type(node.op) is Function else node.children()
    if type(node) is Match:
        return (node.data, _Binding(node), *node.children()[1:])
    return node.children()


def named_dims(ty: Type, names: Iterator[str]) -> Type:
    """Return ``ty`` with a new name for each unknown dimension that has none."""
    if isinstance(ty, TupleType):
        fields = [named_dims(field, names) for field in ty.fields]
        return ty if all(new is old for new, old in zip(fields, ty.fields, strict=True)) else TupleType(fields)
    if not isinstance(ty, TensorType) or is_static(ty) or AnyDim() not in ty.shape:
        return ty
    return TensorType([AnyDim(next(names)) if dim == AnyDim() else dim for dim in ty.shape], ty.dtype)


def _behind_marks(arg: Expr) -> tuple[list[Expr], Expr]:
    """Return the annotations around a value, which have its type, and the value."""
    marks: list[Expr] = []
    while type(arg) is Call and type(arg.op) is Op and arg.op.get_attr("TNonComputational"):
        marks.append(arg)
        arg = arg.args[0]
    return marks, arg


def _bound_types(pattern: Pattern, ty: Type) -> list[tuple[Var, Type]]:
    """Return the variables that a pattern binds when it matches a value of type ``ty``, with their types."""
    if isinstance(pattern, PatternVar):
        return [(pattern.var, ty)]
    parts: Sequence[Type] = [UNKNOWN] * len(pattern.parts)
    if isinstance(pattern, PatternConstructor):
        made = pattern.constructor.type.ret_type
        if not isinstance(ty, IncompleteType):
            if not isinstance(ty, TypeCall) or ty.func != pattern.constructor.belong_to:
                raise TypeCheckError(f"{pattern.constructor.name_hint} makes values of {made} and is matched with {ty}")
            known = dict(zip(pattern.constructor.type_vars, ty.args, strict=True))
            parts = [substitute_types(part, known) for part in pattern.constructor.inputs]
    elif isinstance(pattern, PatternTuple) and not isinstance(ty, IncompleteType):
        if not isinstance(ty, TupleType) or len(ty.fields) != len(pattern.parts):
            raise TypeCheckError(f"a tuple of {len(pattern.parts)} fields is matched with {ty}")
        parts = ty.fields
    return [bound for part, at in zip(pattern.parts, parts, strict=True) for bound in _bound_types(part, at)]


def _apply(callee: Type, arg_types: list[Type], op: Expr) -> Type:
    what = _callee_text(op)
    if not isinstance(callee, FuncType):
        raise TypeCheckError(f"{what} of type {callee} is called but is no function")
    if len(callee.arg_types) != len(arg_types):
        raise TypeCheckError(f"{what} takes {len(callee.arg_types)} arguments and is called with {len(arg_types)}")
    found: dict[TypeVar, Type] = dict.fromkeys(callee.type_params, UNKNOWN)
    for expected, given in zip(callee.arg_types, arg_types, strict=True) if found else ():
        solve(expected, given, found)
    for index, (expected, given) in enumerate(zip(callee.arg_types, arg_types, strict=True)):
        wanted = substitute_types(expected, found)
        if not compatible(wanted, given):
            raise TypeCheckError(f"{what}: argument {index} must be {wanted} and is {given}")
    return substitute_types(callee.ret_type, found)


def _callee_text(op: Expr) -> str:
    if isinstance(op, Constructor):
        return op.name_hint
    if isinstance(op, Var):
        return f"%{op.name_hint}"
    return f"@{op.name_hint}" if isinstance(op, GlobalVar) else "a function"
