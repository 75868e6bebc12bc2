"""The interpreter, which computes expressions with the operators' NumPy kernels.

Functions, lets and branches have frames on a stack of its own, so that neither a deep graph nor a deep recursion of the
program reaches Python's recursion limit. A node is computed once for each activation of the scope that it is in, and
its value is dropped after the last use there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqsat.errors import EqsatError, EvaluationError
from eqsat.nd import BFLOAT16
from eqsat.relay.adt import Constructor, Match
from eqsat.relay.analysis import free_vars
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Call, Constant, Expr, Function, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from eqsat.relay.module import IRModule
from eqsat.relay.references import RefCreate, RefRead, RefWrite
from eqsat.relay.relations import call_type, complete_attrs
from eqsat.relay.traits import Trait
from eqsat.relay.ty import TensorType, TupleType, Type
from eqsat.relay.values import (
    Bindings,
    Cell,
    Closure,
    ConstructorValue,
    Value,
    bind_values,
    cell_of,
    describe_value,
    looks_like,
    truth,
    value_type,
)


def evaluate(expr: Expr | IRModule, env: Bindings | None = None, module: IRModule | None = None) -> Value:
    """Compute the value of an expression.

    Args:
        expr: An expression. Of a function the body is evaluated, of a module its function ``main``.
        env: Values of the parameters and free variables, by variable or by name: arrays, numbers or nested lists, and
            Python tuples of such where the type is a tuple's. Arrays must have the declared dtype and shape; numbers
            and lists are converted.
        module: The module in which GlobalVars are looked up.

    Returns:
        A NumPy array, or a tuple of values where ``expr`` is of tuple type.

    Raises:
        EvaluationError: A variable has no value or one of the wrong type, or an operator has no kernel or one that
            fails on its arguments. The message names the variable or the operator.
    """
    if isinstance(expr, IRModule):
        return evaluate(expr["main"], env, expr)
    if isinstance(expr, Function):
        variables, root = [*expr.params, *free_vars(expr)], expr.body
    else:
        variables, root = free_vars(expr), expr
    scope = bind_values(variables, env or {})
    with np.errstate(all="ignore"):
        return _Machine(module or IRModule()).run(root, scope)


def evaluate_op(op: Op, attrs: Attrs | None, arrays: Sequence[Value]) -> Value:
    """Compute one call of an operator, whose arguments are arrays and tuples of arrays.

    Returns:
        An array, or a tuple of arrays if the operator has several outputs.

    Raises:
        EvaluationError: The operator has no kernel, or its kernel fails.
    """
    with np.errstate(all="ignore"):
        return _apply(op, attrs, arrays)


def _apply(op: Op, attrs: Attrs | None, arguments: Sequence[Value]) -> Value:
    if op.kernel is None:
        raise EvaluationError(f"operator {op.name} has no kernel: it cannot be evaluated here")
    try:
        if any(map(_has_bfloat16, arguments)):
            result = _rounded(
                op.kernel(complete_attrs(op, attrs), *map(_widened, arguments)), _type(op, attrs, arguments)
            )
        else:
            given = arguments if op.has(Trait.MOVES) else map(_in_order, arguments)
            result = op.kernel(complete_attrs(op, attrs), *given)
    except (EqsatError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        what = ", ".join(map(describe_value, arguments))
        raise EvaluationError(f"{op.name}({what}): {error}") from error
    return tuple(map(np.asarray, result)) if isinstance(result, tuple) else np.asarray(result)


def _in_order(value: Value) -> Value:
    """A value with elements in the order of their indices: kernels round otherwise what is strided otherwise."""
    if isinstance(value, tuple):
        return tuple(map(_in_order, value))
    return value.copy(order="C") if isinstance(value, np.ndarray) and not value.flags.c_contiguous else value


# Kernels compute in float32 what is given in bfloat16, and results of that type are rounded once, at the end.


def _has_bfloat16(value: Value) -> bool:
    return any(map(_has_bfloat16, value)) if isinstance(value, tuple) else getattr(value, "dtype", None) == BFLOAT16


def _widened(value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple(map(_widened, value))
    return value.astype(np.float32) if _has_bfloat16(value) else value


def _rounded(value: Value, ty: Type) -> Value:
    if isinstance(ty, TupleType):
        return tuple(map(_rounded, value, ty.fields))
    return np.asarray(value).astype(BFLOAT16) if isinstance(ty, TensorType) and ty.dtype == BFLOAT16.name else value


def _type(op: Op, attrs: Attrs | None, arguments: Sequence[Value]) -> Type:
    return call_type(op, attrs, list(map(value_type, arguments)))


class _Frame:
    """One activation of a scope, which is the body of a function or the whole expression.

    Attributes:
        root: What is evaluated.
        values: Values of variables and of nodes, as long as they are needed.
        uses: Node -> how often its value will still be used.
        stack: Nodes to compute, the next one last. A node stays there until it has a value.
        entered: Let, if or match -> the part of it that gives its value, once that is known.
    """

    __slots__ = ("entered", "root", "stack", "uses", "values")

    def __init__(self, root: Expr, values: dict[Expr, Value], uses: dict[Expr, float]):
        self.root = root
        self.values = values
        self.uses = uses
        self.stack = [root]
        self.entered: dict[Expr, Expr] = {}

    def wants(self, children: Sequence[Expr]) -> bool:
        """Put those of ``children`` that have no value on the stack, the first on top; return whether there are any."""
        values = self.values
        missing = [child for child in reversed(children) if child not in values]
        self.stack.extend(missing)
        return bool(missing)

    def finish(self, node: Expr, value: Value, used: Sequence[Expr]) -> None:
        """Store the value of the node on top of the stack, which was computed from the values of ``used``."""
        self.stack.pop()
        self.values[node] = value
        for child in used:
            self.release(child)

    def release(self, child: Expr) -> None:
        """Note that a use of ``child`` is over."""
        left = self.uses[child] = self.uses[child] - 1
        if left == 0:
            del self.values[child]


class _Machine:
    def __init__(self, module: IRModule):
        self.module = module
        self.frames: list[_Frame] = []
        self.plans: dict[Expr, dict[Expr, float]] = {}
        self.captured: dict[Function, list[Var]] = {}

    def run(self, root: Expr, scope: dict[Expr, Value]) -> Value:
        self._enter(root, scope)
        while True:
            frame = self.frames[-1]
            stack = frame.stack
            while stack and frame is self.frames[-1]:
                node = stack[-1]
                if node in frame.values:
                    stack.pop()
                else:
                    self._step(frame, node)
            if stack:
                continue
            result = frame.values[frame.root]
            self.frames.pop()
            if not self.frames:
                return result
            caller = self.frames[-1]
            call = caller.stack[-1]
            caller.finish(call, result, call.children())

    def _enter(self, root: Expr, scope: dict[Expr, Value]) -> None:
        if root not in self.plans:
            self.plans[root] = self._plan(root)
        self.frames.append(_Frame(root, scope, dict(self.plans[root])))

    def _plan(self, root: Expr) -> dict[Expr, float]:
        """Count how often the value of each node in the scope of ``root`` is used there."""
        uses: dict[Expr, float] = {root: 1}
        stack = [root]
        while stack:
            node = stack.pop()
            for child in _used(node):
                if child not in uses:
                    uses[child] = 0
                    stack.append(child)
                uses[child] += 1
            if type(node) is Function:
                for variable in self._free(node):  # closures look these up at any later time
                    uses[variable] = float("inf")
        return uses

    def _free(self, function: Function) -> list[Var]:
        if function not in self.captured:
            self.captured[function] = free_vars(function)
        return self.captured[function]

    def _step(self, frame: _Frame, node: Expr) -> None:
        """Compute a node, or put on the stack what it waits for."""
        choose = _CHOICES.get(type(node))
        if choose is not None:
            self._choice(frame, node, choose)
            return
        used = _used(node)
        if frame.wants(used):
            return
        given = [frame.values[child] for child in used]
        if type(node) is Call:
            self._call(frame, node, given)
            return
        rule = _VALUES.get(type(node))
        if rule is None:
            raise EvaluationError(f"{type(node).__name__} nodes cannot be evaluated")
        frame.finish(node, rule(self, node, *given), used)

    def _choice(self, frame: _Frame, node: Expr, choose: Callable[[_Frame, Any, Value], Expr]) -> None:
        """Compute a node whose value is that of a part, which the value of its first child decides."""
        if node not in frame.entered:
            (decisive,) = node.outside
            if frame.wants((decisive,)):
                return
            frame.entered[node] = choose(frame, node, frame.values[decisive])
            frame.release(decisive)
        part = frame.entered[node]
        if not frame.wants((part,)):
            frame.finish(node, frame.values[part], (part,))

    def _call(self, frame: _Frame, node: Call, given: list[Value]) -> None:
        if type(node.op) is Op:
            frame.finish(node, _apply(node.op, node.attrs, given), node.args)
            return
        callee = given.pop(0)
        if isinstance(callee, Op):
            frame.finish(node, _apply(callee, node.attrs, given), node.children())
        elif isinstance(callee, Constructor):
            frame.finish(node, ConstructorValue(callee, given), node.children())
        elif isinstance(callee, Closure):
            self._activate(callee, given)
        else:
            raise EvaluationError(f"a value that is no function is called with {len(given)} arguments")

    def _activate(self, callee: Closure, given: Sequence[Value]) -> None:
        function = callee.function
        if len(given) != len(function.params):
            raise EvaluationError(f"a function of {len(function.params)} parameters is called with {len(given)}")
        scope: dict[Expr, Value] = dict(zip(function.params, given, strict=True))
        for variable in self._free(function):
            if variable not in callee.scope:
                raise EvaluationError(f"no value is given for %{variable.name_hint}")
            scope[variable] = callee.scope[variable]
        self._enter(function.body, scope)

    def _global_var(self, node: GlobalVar) -> Closure:
        if node.name_hint not in self.module:
            raise EvaluationError(f"@{node.name_hint} is used but the module has no such function")
        return Closure(self.module[node.name_hint], {})

    def _var(self, node: Var) -> Value:
        raise EvaluationError(f"no value is given for %{node.name_hint}")

    def _tuple_get_item(self, node: TupleGetItem, value: Value) -> Value:
        if not isinstance(value, tuple) or not 0 <= node.index < len(value):
            what = f"a tuple of {len(value)}" if isinstance(value, tuple) else "a value that is no tuple"
            raise EvaluationError(f"projection .{node.index} of {what}")
        return value[node.index]

    def _ref_write(self, node: RefWrite, ref: Value, value: Value) -> Value:
        cell_of(ref).value = value
        return ()


def _let(frame: _Frame, node: Let, value: Value) -> Expr:
    if frame.uses.get(node.var, 0):
        frame.values[node.var] = value
    return node.body


def _match(frame: _Frame, node: Match, value: Value) -> Expr:
    """Return the right side of the clause that applies, after its variables have got their values."""
    for clause in node.clauses:
        bound: dict[Var, Value] = {}
        if looks_like(value, clause.lhs, bound):
            frame.values.update((variable, bound[variable]) for variable in bound if frame.uses.get(variable, 0))
            return clause.rhs
    raise EvaluationError(f"no clause of a match applies to {describe_value(value)}")


def _used(node: Expr) -> tuple[Expr, ...]:
    """Return the nodes whose values ``node`` needs to be computed; a function needs none until it is called."""
    return () if type(node) is Function else node.evaluated


_CHOICES: dict[type[Expr], Callable[[_Frame, Any, Value], Expr]] = {
    If: lambda frame, node, cond: node.true_branch if truth(cond) else node.false_branch,
    Let: _let,
    Match: _match,
}
"""The nodes that have the value of one of their parts."""

_VALUES: dict[type[Expr], Callable[..., Value]] = {
    Constant: lambda machine, node: node.data.numpy(),
    Constructor: lambda machine, node: node,
    Function: lambda machine, node: Closure(node, machine.frames[-1].values),
    GlobalVar: _Machine._global_var,
    Op: lambda machine, node: node,
    RefCreate: lambda machine, node, value: Cell(value),
    RefRead: lambda machine, node, ref: cell_of(ref).value,
    RefWrite: _Machine._ref_write,
    Tuple: lambda machine, node, *fields: fields,
    TupleGetItem: _Machine._tuple_get_item,
    Var: _Machine._var,
}
"""The values of the other nodes but calls, from those of what they use."""
