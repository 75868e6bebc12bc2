"""Types that depend on how a value is used, such as that of a parameter which only a call further on decides.

:class:`~eqsat.relay.inferencer.Inferencer` finds most types operands first. Where it can go no further, what is left
gets holes for types. Each node says which types must be equal, and an operator tells its result once its arguments are
known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eqsat.errors import TypeCheckError
from eqsat.relay.adt import Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from eqsat.relay.expr import Call, Expr, Function, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from eqsat.relay.generics import substitute_types
from eqsat.relay.references import RefCreate, RefRead, RefWrite
from eqsat.relay.relations import complete_attrs
from eqsat.relay.ty import FuncType, IncompleteType, RefType, TensorType, TupleType, Type, TypeCall
from eqsat.relay.unify import Hole, Unifier


class Solver:
    """Finds the types of nodes together.

    Args:
        known: Types of nodes that are known; grows.
        find: Returns the type of a node from the known types of its operands.
        note: Is told of each type that is found, and enters it into ``known``.
        declared: Returns the declared type of a variable.
        function: Returns the function of the module that a global variable names.
        name: Names the callee of a call in messages.
    """

    def __init__(
        self,
        known: Mapping[Expr, Type],
        find: Callable[[Expr], Type | None],
        note: Callable[[Expr, Type], None],
        declared: Callable[[Var], Type | None],
        function: Callable[[GlobalVar], Function],
        name: Callable[[Expr], str],
    ):
        self.known = known
        self.find = find
        self.note = note
        self.declared = declared
        self.function = function
        self.name = name
        self.unifier = Unifier()
        self.holes: dict[Expr, Type] = {}
        self._signatures: dict[str, Type] = {}

    def run(self, nodes: Sequence[Expr]) -> list[Expr]:
        """Find the types of ``nodes``, operands before their users; return those whose types stay open.

        Raises:
            TypeCheckError: Types that must be equal are not.
        """
        self.holes = {node: Hole() for node in nodes}
        waiting, filled = list(nodes), -1
        while waiting and filled < self.unifier.filled:
            filled = self.unifier.filled
            waiting = [node for node in waiting if not self._state(node)]
        return [node for node in nodes if not self._is_known(node)]

    def _state(self, node: Expr) -> bool:
        """State what must be equal for a node; return whether there is no more to say."""
        rule = _RULES.get(type(node))
        if rule is None:
            if not all(map(self._is_known, node.children())):
                return False
            self._equal(node, self.find(node))
            return True
        said = rule(self, node)
        self._is_known(node)
        return said

    def _is_known(self, node: Expr) -> bool:
        if node in self.known or type(node) is Op:
            return True
        ty = self.holes[node]
        if not self.unifier.is_known(ty):
            return False
        self.note(node, self.unifier.resolve(ty))
        return True

    def _type(self, node: Expr) -> Type:
        return self.known[node] if node in self.known else self.unifier.resolve(self.holes[node])

    def _equal(self, node: Expr, ty: Type | None) -> None:
        if ty is not None:
            self.unifier.unify(self._type(node), ty)

    def _var(self, node: Var) -> bool:
        self._equal(node, self.declared(node))
        return True

    def _global_var(self, node: GlobalVar) -> bool:
        """A function whose type is not known has as many parameters as it is written with."""
        signature = self.find(node) or self._signatures.get(node.name_hint)
        if signature is None:
            function = self.function(node)
            params = [param.type_annotation or Hole() for param in function.params]
            signature = FuncType(params, function.ret_type or Hole(), function.type_params)
            self._signatures[node.name_hint] = signature
            if function in self.holes:  # it calls itself
                self._equal(function, signature)
        self._equal(node, signature)
        return True

    def _function(self, node: Function) -> bool:
        result = self._type(node.body)
        if node.ret_type is not None:
            self._together(node.ret_type, result, "a function declared to give {} gives {}")
            result = node.ret_type
        self._equal(node, FuncType([self._type(param) for param in node.params], result, node.type_params))
        return True

    def _let(self, node: Let) -> bool:
        text = f"let %{node.var.name_hint}: {{}} is bound to {{}}"
        self._together(self._type(node.var), self._type(node.value), text)
        self._equal(node, self._type(node.body))
        return True

    def _tuple(self, node: Tuple) -> bool:
        self._equal(node, TupleType([self._type(field) for field in node.fields]))
        return True

    def _tuple_get_item(self, node: TupleGetItem) -> bool:
        whole = self._type(node.tuple_value)
        if isinstance(whole, Hole):
            return False
        if isinstance(whole, TupleType) and node.index < len(whole.fields):
            self._equal(node, whole.fields[node.index])
            return True
        raise TypeCheckError(f"projection .{node.index} of a value of type {whole}")

    def _if(self, node: If) -> bool:
        text = "the condition of an if must be a bool scalar, not {1}"
        self._together(TensorType((), "bool"), self._type(node.cond), text)
        true, false = self._type(node.true_branch), self._type(node.false_branch)
        self._together(true, false, "the branches of an if differ in type: {} and {}")
        self._equal(node, false if isinstance(true, FuncType) and true.type_params else true)
        return True

    def _call(self, node: Call) -> bool:
        if type(node.op) is Op:
            return self._operator_call(node, node.op)
        args = [self._type(arg) for arg in node.args]
        callee = self._type(node.op)
        if isinstance(callee, Hole):
            self.unifier.unify(callee, FuncType(args, self._type(node)))
            return True
        if isinstance(callee, IncompleteType):
            self._equal(node, callee)
            return True
        what = self.name(node.op)
        if not isinstance(callee, FuncType):
            raise TypeCheckError(f"{what} of type {callee} is called but is no function")
        if len(callee.arg_types) != len(args):
            raise TypeCheckError(f"{what} takes {len(callee.arg_types)} arguments and is called with {len(args)}")
        instance = self.unifier.instance(callee)
        for index, (wanted, given) in enumerate(zip(instance.arg_types, args, strict=True)):
            self._together(wanted, given, f"{what}: argument {index} must be {{}} and is {{}}")
        self._equal(node, instance.ret_type)
        return True

    def _operator_call(self, node: Call, op: Op) -> bool:
        if not all(map(self._is_known, node.args)) and op.deduce is not None:
            given = [self.known[arg] if self._is_known(arg) else None for arg in node.args]
            deduced = op.deduce(complete_attrs(op, node.attrs), given)
            for arg, old, new in zip(node.args, given, deduced, strict=True):
                self._equal(arg, new if old is None else None)
        if not all(map(self._is_known, node.args)):
            return False
        self._equal(node, self.find(node))
        return True

    def _match(self, node: Match) -> bool:
        data = self._type(node.data)
        for clause in node.clauses:
            self._bind(clause.lhs, data)
            text = "the clauses of a match differ in type: {} and {}"
            self._together(self._type(node), self._type(clause.rhs), text)
        return True

    def _bind(self, pattern: Pattern, ty: Type) -> None:
        """State the types of the variables that a pattern binds when it matches a value of type ``ty``."""
        if isinstance(pattern, PatternVar):
            self._together(self._type(pattern.var), ty, f"%{pattern.var.name_hint}: {{}} is matched with {{}}")
            return
        parts: Sequence[Type] = [Hole() for _ in pattern.parts]
        if isinstance(pattern, PatternTuple):
            self._together(TupleType(parts), ty, "a pattern of {} is matched with {}")
        elif isinstance(pattern, PatternConstructor):
            constructor = pattern.constructor
            args = [Hole() for _ in constructor.type_vars]
            made = TypeCall(constructor.belong_to, args)
            self._together(made, ty, f"{constructor.name_hint} makes values of {{}} and is matched with {{}}")
            known = dict(zip(constructor.type_vars, args, strict=True))
            parts = [substitute_types(part, known) for part in constructor.inputs]
        for part, at in zip(pattern.parts, parts, strict=True):
            self._bind(part, at)

    def _ref_create(self, node: RefCreate) -> bool:
        self._equal(node, RefType(self._type(node.value)))
        return True

    def _ref_read(self, node: RefRead) -> bool:
        self._equal(node.ref, RefType(self._type(node)))
        return True

    def _ref_write(self, node: RefWrite) -> bool:
        self._equal(node.ref, RefType(self._type(node.value)))
        self._equal(node, TupleType(()))
        return True

    def _together(self, wanted: Type, given: Type, text: str) -> None:
        """Make two types equal.

        Raises:
            TypeCheckError: They are not; ``text`` has places for both.
        """
        try:
            self.unifier.unify(wanted, given)
        except TypeCheckError:
            raise TypeCheckError(text.format(*map(self.unifier.resolve, (wanted, given)))) from None


_RULES: dict[type[Expr], Callable[[Solver, Any], bool]] = {
    Call: Solver._call,
    Function: Solver._function,
    GlobalVar: Solver._global_var,
    If: Solver._if,
    Let: Solver._let,
    Match: Solver._match,
    RefCreate: Solver._ref_create,
    RefRead: Solver._ref_read,
    RefWrite: Solver._ref_write,
    Tuple: Solver._tuple,
    TupleGetItem: Solver._tuple_get_item,
    Var: Solver._var,
}
"""What a node says; the other classes say their types once those of their children are known."""
