"""Type inference: each operator's own relation, asked once per distinct question.

Variables without annotation take the type that an operator they are an argument of decides (``deduce``
in the registry), parameters of a function that is called directly take the types of the arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from eqsat.relay.adt import Constructor
from eqsat.relay.expr import Constant, Expr, Function, GlobalVar, Var
from eqsat.relay.inferencer import Inferencer
from eqsat.relay.module import IRModule
from eqsat.relay.ty import (
    FuncType,
    Type,
)
from eqsat.relay.visitor import post_order, rebuild


def infer_types(
    root: Expr,
    module: IRModule | None = None,
    env: Mapping[Var, Type] | None = None,
    names: Iterator[str] | None = None,
) -> dict[Expr, Type]:
    """The type of every node of ``root`` but operators; nothing is written to the nodes.

    Args:
        root: the graph.
        module: where GlobalVars are looked up.
        env: types of variables, instead of their annotations.
        names: of dimensions that operators leave unknown, each used once; None to leave them without. A graph with
            functions in it gets none: what they give differs from call to call.

    Raises:
        TypeCheckError: naming operator, arguments and types when a call does not type-check, or the
            variable whose type nothing decides.
    """
    types: dict[Expr, Type] = {}
    Inferencer(module or IRModule(), env or {}, types, names).run(root)
    return types


def extend_types(types: dict[Expr, Type], root: Expr) -> None:
    """Add the types of ``root`` and all below it to ``types``; nodes that are in it are not looked into.

    Raises:
        TypeCheckError: as :func:`infer_types`.
    """
    Inferencer(IRModule(), {}, types).run(root)


class Typing:
    """:func:`extend_types` for many roots: calls that are alike are typed once.

    ``elements`` is what is known of small integer tensors among what was typed.

    Args:
        types: what is known, and what will be.
        names: as for :func:`infer_types`.
    """

    def __init__(self, types: dict[Expr, Type], names: Iterator[str]):
        self._inferencer = Inferencer(IRModule(), {}, types, names)
        self.elements = self._inferencer.elements

    def extend(self, root: Expr) -> None:
        """Type ``root`` and what is below it."""
        self._inferencer.run(root)


def infer_type(root: Expr, module: IRModule | None = None) -> Expr:
    """``root`` with ``checked_type`` on every node; parameters get annotations, functions result types."""
    types = infer_types(root, module)
    new: dict[Expr, Expr] = {}
    for node, ty in types.items():
        new[node] = _typed(node, ty, new)
    return new[root]


def infer_module(module: IRModule) -> IRModule:
    """A copy of ``module`` with every function inferred, callees before callers."""
    typed = IRModule(attrs=module.attrs, type_definitions=module.type_definitions)
    for name in callees_first(module):
        typed[name] = module[name]
    for name in callees_first(module):
        function = infer_type(module[name], typed)
        if isinstance(function, Function):
            typed[name] = function
    result = IRModule(attrs=module.attrs, type_definitions=module.type_definitions)
    for name in module.get_global_vars():
        result[name] = typed[name]
    return result


def callees_first(module: IRModule) -> list[GlobalVar]:
    """The GlobalVars of all functions, those a function calls before its own."""
    order: dict[str, None] = {}
    opened: set[str] = set()
    stack = [variable.name_hint for variable in reversed(module.get_global_vars())]
    while stack:
        name = stack[-1]
        if name in opened:
            order.setdefault(stack.pop())
            continue
        opened.add(name)
        used = [node.name_hint for node in post_order(module[name]) if isinstance(node, GlobalVar)]
        stack.extend(callee for callee in reversed(used) if callee in module and callee not in opened)
    return [module.get_global_var(name) for name in order]


def _typed(node: Expr, ty: Type, new: dict[Expr, Expr]) -> Expr:
    """A copy of ``node`` over ``new`` children that has type ``ty``; itself when it is that already."""
    copy = rebuild(node, new)
    if (copy is node and node._checked_type == ty) or isinstance(node, (GlobalVar, Constructor)):
        return node
    if isinstance(copy, Var):
        copy = Var(copy.vid, ty)._carry(copy)
    elif isinstance(copy, Constant):
        copy = Constant(copy.data)._carry(copy)
    elif isinstance(copy, Function) and isinstance(ty, FuncType):
        copy = Function(copy.params, copy.body, ty.ret_type, copy.type_params, copy.attrs)._carry(copy)
    elif copy is node:
        copy = node.with_children(node.children())
    copy._checked_type = ty
    return copy
