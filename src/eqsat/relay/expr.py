"""The nodes of the IR. A graph is a DAG of immutable nodes; a node that is used twice is one computation.

Nodes are compared and hashed by identity; structural comparison is in :mod:`eqsat.relay.structural`. Each class of
nodes says the following of itself once, and traversals, structural equality, the e-graph, costs and pictures ask it:

* ``kind``: the name of the class there;
* ``children()``: the sub-expressions, in the order that every traversal follows, which ``_init`` is given;
* ``with_children()``: a copy with other sub-expressions, where the class takes more than these;
* ``payload``: what else there is to a node, as a hashable value;
* ``scopes``: the variables that a node binds, and where;
* ``has_effects``: whether the evaluation of a node does more than give a value.
"""

from __future__ import annotations

import operator
import typing
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar, NamedTuple, Protocol, Self, overload

import numpy as np

from eqsat.brief import DEPTH, MORE, call_text, one_line
from eqsat.errors import ArgumentError, OperatorError, TypeCheckError
from eqsat.immutable import Immutable
from eqsat.nd import NDArray, array
from eqsat.relay.attrs import Attrs
from eqsat.relay.order import children_first
from eqsat.relay.pickling import Listing, is_listed, last_node, with_slots
from eqsat.relay.printable import Printable
from eqsat.relay.traits import Trait
from eqsat.relay.ty import FuncType, TensorType, Type, TypeVar

Built = typing.TypeVar("Built", covariant=True)


class Foreign(Protocol[Built]):
    """Base class of objects other than expressions that can be tensor arguments of calls, such as patterns."""

    def build_call(self, op: Op, args: Sequence[Any], attrs: Mapping[str, Any]) -> Built:
        """Return the object for the call; ``attrs`` are the attributes that the caller passed."""


class _Binary(Protocol):
    """Return a call of an operator with two operands, or a pattern or template if the other operand is one."""

    @overload
    def __call__(self, other: Expr, /) -> Call: ...
    @overload
    def __call__(self, other: Foreign[Built], /) -> Built: ...


def _operator(name: str) -> Callable[..., Any]:
    """Return the method that makes a call of an operator on ``self`` and what else it is given."""
    return lambda *args: call_op(name, *args)


class Expr(Printable, Immutable):
    """Base class of all nodes.

    Attributes:
        kind: The name of the class in e-nodes, costs and pictures.
        has_effects: Whether the evaluation of a node does more than give a value, so that the order counts.
        span: Where the node was written, if that is known.
        virtual_device_: The device that a program gave the node, None if it gave none. Copies of the node have it too,
            and variables on different devices differ.
    """

    __slots__ = ("__weakref__", "_checked_type", "_children", "span", "virtual_device_")
    kind: ClassVar[str]
    has_effects: ClassVar[bool] = False
    _checked_type: Type | None
    _children: tuple[Expr, ...]
    span: Any
    virtual_device_: Any

    def _init(self, children: tuple[Expr, ...] = (), span: Any = None) -> None:
        _require_exprs(self, children)
        self._checked_type = None
        self._children = children
        self.span = span
        self.virtual_device_ = None

    @property
    def checked_type(self) -> Type:
        """The inferred type. Raises: TypeCheckError: Type inference has not run over this node."""
        if self._checked_type is None:
            raise TypeCheckError(
                f"this {type(self).__name__} has no checked_type yet: run relay.transform.InferType() first"
            )
        return self._checked_type

    def children(self) -> tuple[Expr, ...]:
        """The direct sub-expressions, in traversal order."""
        return self._children

    def with_children(self, children: Sequence[Expr]) -> Expr:
        """Return a copy of this node over other sub-expressions, as many in the same order, with its type and span."""
        make: Callable[..., Expr] = type(self)
        return make(*children)._carry(self) if children else self

    @property
    def payload(self) -> Hashable:
        """What the node says beside its children: nodes of one class with equal payloads over the same children
        compute the same value."""
        return None

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The parts that are evaluated apart from the node's other children, if they are evaluated at all.

        Their variables and bodies are the last children, in this order.
        """
        return ()

    @property
    def outside(self) -> tuple[Expr, ...]:
        """The children that are not in the node's scopes."""
        children = self.children()
        return children[: len(children) - sum([len(scope.variables) + 1 for scope in self.scopes])]

    @property
    def evaluated(self) -> tuple[Expr, ...]:
        """The nodes whose values the node uses: the children but operators that are called and variables it binds."""
        return (*self.outside, *[scope.body for scope in self.scopes])

    @property
    def binds(self) -> tuple[Var, ...]:
        """The variables that the node binds."""
        return tuple([variable for scope in self.scopes for variable in scope.variables])

    def _carry(self, old: Expr) -> Self:
        self._checked_type = old._checked_type
        self.span = old.span
        self.virtual_device_ = old.virtual_device_
        return self

    def same_as(self, other: object) -> bool:
        """Whether ``other`` is this very node."""
        return self is other

    def astype(self, dtype: Any) -> Call:
        """A call that converts the value to another element type."""
        name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
        return Call(Op.get("cast"), (self,), Attrs({"dtype": name}, "cast"))

    def __call__(self, *args: Expr) -> Call:
        return Call(self, args)

    __neg__: ClassVar[Callable[[Any], Call]] = _operator("negative")
    __add__: ClassVar[_Binary] = _operator("add")
    __sub__: ClassVar[_Binary] = _operator("subtract")
    __mul__: ClassVar[_Binary] = _operator("multiply")
    __truediv__: ClassVar[_Binary] = _operator("divide")
    __lt__: ClassVar[_Binary] = _operator("less")
    __gt__: ClassVar[_Binary] = _operator("greater")
    __le__: ClassVar[_Binary] = _operator("less_equal")
    __ge__: ClassVar[_Binary] = _operator("greater_equal")

    def __reduce__(self) -> Any:
        if not self.children() or is_listed(self):
            return with_slots(self)
        return last_node, (Listing(children_first([self], Expr.children)),)

    def brief(self, depth: int = DEPTH) -> str:
        """Return a text of this node and those below it, down to a depth."""
        return call_text(type(self).__name__, self.children(), depth)

    def __repr__(self) -> str:
        name, text = type(self).__name__, self.brief()
        return one_line(text if text.startswith(f"{name}(") else f"{name}({text})")


class Scope(NamedTuple):
    """A part of a node that is evaluated apart from it, and the variables that the node binds there, in order."""

    variables: tuple[Var, ...]
    body: Expr


class Id:
    """The identity of a variable, which the copies that passes make of it share."""

    __slots__ = ("name_hint",)

    def __init__(self, name_hint: str):
        self.name_hint = name_hint

    def same_as(self, other: object) -> bool:
        """Whether ``other`` is this very identity."""
        return self is other


class Var(Expr):
    """A local variable: function parameter, let-bound, or free.

    Args:
        name_hint: Its name, by which it is not identified, or the Id of a variable to copy.
        type_annotation: Its type, if that is declared.
    """

    __slots__ = ("type_annotation", "vid")
    kind = "var"

    def __init__(self, name_hint: str | Id, type_annotation: Type | None = None):
        self._init()
        self.vid = name_hint if isinstance(name_hint, Id) else Id(str(name_hint))
        self.type_annotation = type_annotation

    @property
    def name_hint(self) -> str:
        return self.vid.name_hint

    @property
    def payload(self) -> Hashable:
        return self

    def brief(self, depth: int = DEPTH) -> str:
        return f"%{self.name_hint}"

    def __repr__(self) -> str:
        return one_line(
            f"Var({self.name_hint}{'' if self.type_annotation is None else f', ty={self.type_annotation}'})"
        )


class GlobalVar(Expr):
    """A reference to a function of the module."""

    __slots__ = ("name_hint",)
    kind = "global"

    def __init__(self, name_hint: str):
        self._init()
        self.name_hint = name_hint

    @property
    def payload(self) -> Hashable:
        return self.name_hint

    def brief(self, depth: int = DEPTH) -> str:
        return f"@{self.name_hint}"

    def __repr__(self) -> str:
        return one_line(f"GlobalVar({self.name_hint})")


class Constant(Expr):
    """A tensor whose value is known at compile time.

    Args:
        data: An NDArray, or anything of which NumPy makes an array.
    """

    __slots__ = ("data",)
    kind = "constant"

    def __init__(self, data: Any):
        self._init()
        self.data: NDArray = array(data)

    @property
    def payload(self) -> Hashable:
        return self.data.digest()

    def brief(self, depth: int = DEPTH) -> str:
        return self.data.brief


_UNNAMED = "argument "
"""How the names of arguments begin that have no name yet."""


class Op(Expr):
    """An operator. There is one object for each name, and it holds all that is known of the operator.

    :func:`eqsat.relay.op.op.define` fills the registry and explains the attributes that it sets. ``tuples`` names the
    arguments that are tuples of tensors, ``own_tuples`` those of which each call has its own; ``attr_map`` holds
    Relay's operator attributes, such as ``TOpPattern``; ``support_level`` is TVM's, which sorts its documentation.
    """

    __slots__ = (
        "arguments", "attr_map", "deduce", "denotation", "fields", "flops", "infer", "kernel", "name", "outputs",
        "own_tuples", "refine", "support_level", "traits", "tuples",
    )  # fmt: skip
    kind = "operator"

    _registry: dict[str, Op] = {}  # noqa: RUF012 - the one table of operators
    relations: ClassVar[dict[str, Callable[..., Type]]] = {}
    """Type relations that have a name."""

    def __init__(self, name: str, arguments: tuple[str, ...] | None, fields: tuple[Any, ...] = ()):
        self._init()
        self.name = name
        self.arguments = arguments
        self.fields = fields
        self.attr_map: dict[str, Any] = {}
        self.infer: Callable[..., Type] | None = None
        self.refine: Callable[..., Type | None] | None = None
        self.deduce: Callable[..., Sequence[Type | None]] | None = None
        self.kernel: Callable[..., Any] | None = None
        self.denotation: Callable[..., Any] | str | None = None
        self.flops: Callable[..., float] | None = None
        self.outputs: int | Callable[[Attrs], int | None] = 1
        self.support_level = 10
        self.traits = Trait.NONE
        self.tuples: tuple[str, ...] = ()
        self.own_tuples: tuple[str, ...] = ()

    @property
    def payload(self) -> Hashable:
        return self.name

    def brief(self, depth: int = DEPTH) -> str:
        return self.name

    @staticmethod
    def get(name: str) -> Op:
        """Return the operator of a name.

        Raises: OperatorError: There is none.
        """
        try:
            return Op._registry[name]
        except KeyError:
            raise OperatorError(f"there is no operator {name!r}{_did_you_mean(name)}") from None

    @staticmethod
    def find(name: str | None) -> Op | None:
        """Return the operator of that name, or None if there is none."""
        return None if name is None else Op._registry.get(name)

    def get_attr(self, key: str) -> Any:
        """Return Relay's operator attribute ``key``, such as ``"TOpPattern"``, or None if it is not set."""
        return self.attr_map.get(key)

    def has_attr(self, key: str) -> bool:
        """Return whether Relay's operator attribute ``key`` is set."""
        return key in self.attr_map

    def set_attr(self, key: str, value: Any, plevel: int = 10) -> None:
        """Set Relay's operator attribute ``key``; ``plevel`` is accepted as TVM does, and the last value holds."""
        self.attr_map[key] = value

    def reset_attr(self, key: str) -> None:
        """Remove Relay's operator attribute ``key``."""
        self.attr_map.pop(key, None)

    @property
    def num_inputs(self) -> int:
        """The number of arguments, -1 if there may be any number of them."""
        return -1 if self.arguments is None else len(self.arguments)

    def set_num_inputs(self, n: int) -> None:
        """Set the number of arguments; names are given to them by :meth:`add_argument`."""
        self.arguments = tuple([*(self.arguments or ()), *[f"{_UNNAMED}{index}" for index in range(n)]][:n])

    def add_argument(self, name: str, type: str, description: str) -> None:
        """Name the first argument without a name, or add an argument; ``type`` and ``description`` are for readers."""
        names = list(self.arguments or ())
        unnamed = [index for index, each in enumerate(names) if each.startswith(_UNNAMED)]
        names[slice(unnamed[0], unnamed[0] + 1) if unnamed else slice(len(names), None)] = [name]
        self.arguments = tuple(names)

    def add_type_rel(
        self, rel_name: str, type_rel_func: Callable[[Sequence[Type], Any], Type | None] | None = None
    ) -> None:
        """Set how the type of a call is inferred.

        Args:
            rel_name: A name. Without a function it is ``"Identity"``, the type of the argument, or ``"Broadcast"``.
            type_rel_func: ``type_rel_func(arg_types, attrs)`` returns the type, None if it does not know it.

        Raises:
            ArgumentError: No function is given, and the name is another one.
        """
        if type_rel_func is None:
            if rel_name not in Op.relations:
                known = sorted(Op.relations)
                raise ArgumentError(f"there is no type relation {rel_name!r}: give a function, or one of {known}")
            self.infer = Op.relations[rel_name]
            return

        def infer(attrs: Attrs | None, arg_types: Sequence[Type]) -> Type:
            ty = type_rel_func(list(arg_types), attrs)
            if not isinstance(ty, Type):
                raise TypeCheckError(f"type relation {rel_name!r} gave {ty!r}, which is no type")
            return ty

        self.infer = infer

    def set_support_level(self, level: int) -> None:
        """Set the level by which TVM's documentation sorts operators."""
        self.support_level = level

    def set_attrs_type_key(self, key: str) -> None:
        """Do nothing: calls of an operator that declares no attributes may have any attributes."""

    @staticmethod
    def list_op_names() -> list[str]:
        """Return the names of all operators, sorted."""
        return sorted(Op._registry)

    def has(self, traits: Trait) -> bool:
        """Return whether the operator has all of the given traits."""
        return traits in self.traits

    def __reduce__(self) -> Any:
        return Op.get, (self.name,)

    def __repr__(self) -> str:
        return f"Op({self.name})"


class Call(Expr):
    """A call of an operator or a function.

    Args:
        op: An Op, or any expression that evaluates to a function.
        args: The arguments.
        attrs: The attributes of the call, if it has any.
        type_args: Types that stand for the type parameters of a function; of an operator, the types of the arguments.
            Type inference fills them in.
        span: Where the call was written, if that is known.
    """

    __slots__ = ("args", "attrs", "op", "type_args")
    kind = "apply"  # of a function: calls of operators have kind "call" in e-graphs

    def __init__(
        self,
        op: Expr,
        args: Sequence[Expr],
        attrs: Mapping[str, Any] | None = None,
        type_args: Any = None,
        span: Any = None,
    ):
        self.op = op
        self.args = tuple(args)
        _require_exprs(self, self.args)
        if not isinstance(op, Expr):
            _require_exprs(self, (op,))
        self._checked_type = None  # not by _init: calls are made by the hundred thousand
        self._children = (op, *self.args)
        self.span = span
        self.virtual_device_ = None
        self.attrs = attrs if attrs is None or isinstance(attrs, Attrs) else Attrs(attrs)
        self.type_args = None if type_args is None else tuple(type_args)

    def with_children(self, children: Sequence[Expr]) -> Call:
        return Call(children[0], children[1:], self.attrs, self.type_args)._carry(self)

    @property
    def evaluated(self) -> tuple[Expr, ...]:
        return self.args if type(self.op) is Op else self._children

    @property
    def payload(self) -> Hashable:
        type_args = None if type(self.op) is Op else self.type_args or None  # of operators: types of the arguments
        return (None if self.attrs is None else self.attrs.key, type_args)

    def brief(self, depth: int = DEPTH) -> str:
        head = self.op.brief(depth - 1) if depth > 0 or type(self.op) is Op else MORE
        return call_text(head, self.args, depth)


class Tuple(Expr):
    """A tuple of values. ``t[i]`` is the expression of field ``i``."""

    __slots__ = ("fields",)
    kind = "tuple"

    def __init__(self, fields: Sequence[Expr], span: Any = None):
        if not isinstance(fields, Iterable):
            raise ArgumentError(f"the fields of a Tuple are a list of expressions, not {fields!r}")
        self.fields = tuple(fields)
        self._init(self.fields, span)

    def with_children(self, children: Sequence[Expr]) -> Tuple:
        return Tuple(children)._carry(self)

    def brief(self, depth: int = DEPTH) -> str:
        return call_text("", self.fields, depth)

    def __getitem__(self, index: int) -> Expr:
        if not -len(self.fields) <= index < len(self.fields):
            raise IndexError(f"index {index} of a tuple of {len(self.fields)}")
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)


class TupleGetItem(Expr):
    """Field ``index``, counted from 0, of the tuple that ``tuple_value`` evaluates to."""

    __slots__ = ("index", "tuple_value")
    kind = "project"

    def __init__(self, tuple_value: Expr, index: int, span: Any = None):
        self._init((tuple_value,), span)
        self.tuple_value = tuple_value
        try:
            self.index = operator.index(index)
        except TypeError:
            raise ArgumentError(f"the index of a tuple's field is a whole number, not {index!r}") from None

    def with_children(self, children: Sequence[Expr]) -> TupleGetItem:
        return TupleGetItem(children[0], self.index)._carry(self)

    @property
    def payload(self) -> Hashable:
        return self.index

    def brief(self, depth: int = DEPTH) -> str:
        return f"{self.tuple_value.brief(depth - 1) if depth > 0 else MORE}.{self.index}"


class Function(Expr):
    """A function value.

    Args:
        params: The parameters, in order.
        body: What the function computes. The parameters occur in it as the same Var objects.
        ret_type: The type of the result, if it is declared.
        type_params: Type variables that may stand for any type in the function.
        attrs: Attributes such as ``Composite`` or ``Primitive``.
        span: Where the function was written, if that is known.
    """

    __slots__ = ("attrs", "body", "params", "ret_type", "type_params")
    kind = "function"

    def __init__(
        self,
        params: Sequence[Var],
        body: Expr,
        ret_type: Type | None = None,
        type_params: Sequence[TypeVar] | None = None,
        attrs: Mapping[str, Any] | None = None,
        span: Any = None,
    ):
        if not isinstance(params, Iterable):
            raise ArgumentError(f"the parameters of a Function are a list of Vars, not {params!r}")
        self.params = tuple(params)
        for param in self.params:
            if not isinstance(param, Var):
                raise ArgumentError(f"a parameter of a Function must be a Var, not {param!r}")
        if not isinstance(body, Expr):
            raise ArgumentError(f"the body of a Function must be an expression, not {body!r}{expression_hint(body)}")
        self._init((*self.params, body), span)
        self.body = body
        self.ret_type = ret_type
        self.type_params = tuple(type_params or ())
        self.attrs = attrs if isinstance(attrs, Attrs) else Attrs(attrs)

    def with_children(self, children: Sequence[Expr]) -> Function:
        params: Any = children[:-1]
        return Function(params, children[-1], self.ret_type, self.type_params, self.attrs)._carry(self)

    def _with_attrs(self, attrs: Mapping[str, Any]) -> Function:
        return Function(self.params, self.body, self.ret_type, self.type_params, attrs)._carry(self)

    @property
    def payload(self) -> Hashable:
        return (self.attrs.key, self.ret_type, self.type_params)

    @property
    def scopes(self) -> tuple[Scope, ...]:
        return (Scope(self.params, self.body),)

    def without_attr(self, key: str) -> Function:
        """Return a copy without attribute ``key``."""
        return self._with_attrs({name: value for name, value in self.attrs.items() if name != key})

    def with_attr(self, key: str | Mapping[str, Any], value: Any = None) -> Function:
        """Return a copy with attribute ``key`` set to ``value``, or with all attributes of a mapping set."""
        return self.with_attrs({key: value} if isinstance(key, str) else key)

    def with_attrs(self, attr_map: Mapping[str, Any]) -> Function:
        """Return a copy with all attributes of a mapping set."""
        return self._with_attrs({**self.attrs, **attr_map})

    @property
    def type_annotation(self) -> FuncType | None:
        """The declared type of the function, None if a parameter or the result is not annotated."""
        arg_types = [param.type_annotation for param in self.params]
        if self.ret_type is None or None in arg_types:
            return None
        return FuncType([ty for ty in arg_types if ty is not None], self.ret_type, self.type_params)


class Let(Expr):
    """``let var = value; body``. The children are the value, the variable and the body, in this order."""

    __slots__ = ("body", "value", "var")
    kind = "let"

    def __init__(self, variable: Var, value: Expr, body: Expr, span: Any = None):
        self._init((value, variable, body), span)
        self.var = variable
        self.value = value
        self.body = body

    def with_children(self, children: Sequence[Expr]) -> Let:
        value, variable, body = children
        if not isinstance(variable, Var):
            raise ArgumentError(f"a let can only bind a Var, not {variable!r}")
        return Let(variable, value, body)._carry(self)

    @property
    def scopes(self) -> tuple[Scope, ...]:
        return (Scope((self.var,), self.body),)


class If(Expr):
    """``true_branch`` where the boolean scalar ``cond`` holds, else ``false_branch``."""

    __slots__ = ("cond", "false_branch", "true_branch")
    kind = "if"

    def __init__(self, cond: Expr, true_branch: Expr, false_branch: Expr, span: Any = None):
        self._init((cond, true_branch, false_branch), span)
        self.cond = cond
        self.true_branch = true_branch
        self.false_branch = false_branch

    @property
    def scopes(self) -> tuple[Scope, ...]:
        return (Scope((), self.true_branch), Scope((), self.false_branch))


class TupleWrapper:
    """The result of a call of an operator with ``size`` outputs: ``w[i]`` makes a new projection each time."""

    def __init__(self, tuple_value: Expr, size: int):
        self.tuple_value = tuple_value
        self.size = size

    def astuple(self) -> Expr:
        """The call itself, a value of tuple type."""
        return self.tuple_value

    def __getitem__(self, index: int) -> TupleGetItem:
        if not 0 <= index < self.size:
            raise IndexError(f"output {index} of {self.size}")
        return TupleGetItem(self.tuple_value, index)

    def __len__(self) -> int:
        return self.size

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a TupleWrapper has no attribute {name!r}{expression_hint(self)}")

    def __repr__(self) -> str:
        return f"<TupleWrapper of {self.size} outputs>"


def call_op(name: str, *args: Any) -> Any:
    """A call of operator ``name`` without attributes; a pattern or template when an argument is one."""
    op = Op.get(name)
    for arg in args:
        if not isinstance(arg, Expr):
            return build_foreign(op, args, {}, arg)
    return Call(op, args)


def build_foreign(op: Op, args: Sequence[Any], attrs: Mapping[str, Any], foreign: Any) -> Any:
    """What ``foreign``, an argument that is not an expression, builds for a call of ``op``.

    Patterns and rule templates take part in calls by a method ``build_call(op, args, attrs)``, where
    ``attrs`` holds only the attributes the caller wrote.
    """
    build = getattr(foreign, "build_call", None)
    if build is None:
        hint = expression_hint(foreign) or ": give an Expr"
        raise ArgumentError(f"argument {foreign!r} of {op.name} is not an expression{hint}")
    return build(op, args, attrs)


def _require_exprs(node: Expr, children: Sequence[object]) -> None:
    for child in children:
        if not isinstance(child, Expr):
            what = f"a {type(node).__name__} is made of expressions"
            raise ArgumentError(f"{what}, not {child!r}{expression_hint(child)}")


def expression_hint(given: object) -> str:
    """Return advice for an argument that is given instead of an expression, for the end of a message."""
    if isinstance(given, TupleWrapper):
        return ": use .astuple() for all outputs, or [i] for one of them"
    if isinstance(given, (int, float, np.generic, np.ndarray, NDArray)):
        return ": convert it with relay.const first"
    return ': give one of its functions, such as mod["main"]' if hasattr(given, "get_global_vars") else ""


def var(
    name_hint: str,
    type_annotation: Type | str | None = None,
    shape: Sequence[Any] | None = None,
    dtype: str = "float32",
) -> Var:
    """Return a new variable.

    Args:
        name_hint: The name.
        type_annotation: The type; the name of a dtype stands for a scalar of that dtype.
        shape: The shape of a tensor (ints or ``Any()``), instead of ``type_annotation``.
        dtype: The element type, together with ``shape``.
    """
    if type_annotation is not None and shape is not None:
        raise ArgumentError(f"variable {name_hint}: give type_annotation or shape, not both")
    if isinstance(type_annotation, str):
        return Var(name_hint, TensorType((), type_annotation))
    if shape is not None:
        return Var(name_hint, TensorType(shape, dtype))
    return Var(name_hint, type_annotation)


_NARROWED = {"int64": "int32", "float64": "float32"}


def const(value: Any, dtype: str | TensorType | None = None) -> Constant:
    """Return a constant.

    Args:
        value: A bool, int, float, list, NumPy array or NDArray.
        dtype: The element type, or a tensor type with it. By default, int32 for Python integers and int64 arrays,
            float32 for Python floats and float64 arrays, and otherwise the dtype of the array. NDArrays keep their
            dtype.

    Raises:
        ArgumentError: The value is of another kind.
    """
    if isinstance(value, NDArray):
        return Constant(value)
    try:
        values = np.asarray(value)
    except ValueError as error:  # lists of different lengths, say
        raise ArgumentError(f"a constant cannot hold {value!r}: {error}") from None
    if values.dtype == object or values.dtype.kind in "US":
        raise ArgumentError(f"a constant cannot hold {value!r}")
    if isinstance(dtype, TensorType):
        dtype = dtype.dtype
    return Constant(values.astype(dtype or _NARROWED.get(values.dtype.name, values.dtype.name), copy=False))


def _did_you_mean(name: str) -> str:
    """Return the end of a message: an operator of another family spelled just so, or of the same nearly so."""
    if not isinstance(name, str):
        return ""
    family, _, stem = name.rpartition(".")
    parted = {op: op.rpartition(".")[::2] for op in Op._registry}
    close = [op for op, (_, other) in parted.items() if other == stem]
    relatives = {other: op for op, (of, other) in parted.items() if of == family}
    close += [relatives[each] for each in get_close_matches(stem, relatives, n=1)]
    return f"; did you mean {close[0]!r}?" if close else ""


class WithFields:
    """Makes copies of nodes of one class with other fields.

    Args:
        kind: The class.
        fields: The names of its fields, in the order in which the constructor takes them.
        renamed: Field -> the name of the argument that sets it, if that is another one.
    """

    def __init__(self, kind: type[Expr], *fields: str, **renamed: str):
        self.kind = kind
        self.arguments = {renamed.get(field, field): field for field in fields}

    def __call__(self, node: Expr, *values: Any, virtual_device: Any = None, span: Any = None, **named: Any) -> Any:
        """Return ``node`` with other fields; a field whose argument is missing or None stays as it is.

        The copy has the type of the node. Where nothing changes it is the node itself.

        Raises:
            ArgumentError: ``node`` is of another class, or there is no such field.
        """
        if type(node) is not self.kind:
            raise ArgumentError(f"{self.kind.__name__}WithFields takes a {self.kind.__name__}, not {node!r}")
        given = {**dict(zip(self.arguments, values, strict=False)), **named}
        if len(values) > len(self.arguments) or not given.keys() <= self.arguments.keys():
            raise ArgumentError(f"the fields of a {self.kind.__name__} are {list(self.arguments)}, not {list(named)}")
        old = [getattr(node, field) for field in self.arguments.values()]
        new = [
            value if given.get(name) is None else given[name] for name, value in zip(self.arguments, old, strict=True)
        ]
        if span is virtual_device is None and all(one is other for one, other in zip(old, new, strict=True)):
            return node
        make: Callable[..., Expr] = self.kind
        copy = make(*new)._carry(node)
        copy.span = node.span if span is None else span
        copy.virtual_device_ = node.virtual_device_ if virtual_device is None else virtual_device
        return copy


CallWithFields = WithFields(Call, "op", "args", "attrs", "type_args")
ConstantWithFields = WithFields(Constant, "data")
FunctionWithFields = WithFields(Function, "params", "body", "ret_type", "type_params", "attrs", type_params="ty_params")
IfWithFields = WithFields(If, "cond", "true_branch", "false_branch")
LetWithFields = WithFields(Let, "var", "value", "body", var="variable")
TupleGetItemWithFields = WithFields(TupleGetItem, "tuple_value", "index")
TupleWithFields = WithFields(Tuple, "fields")
VarWithFields = WithFields(Var, "vid", "type_annotation")
