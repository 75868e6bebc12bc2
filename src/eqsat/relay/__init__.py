"""The IR: a Relay-style graph of typed tensor operators."""

import builtins
import typing

from eqsat.lazy import load_name
from eqsat.relay import (
    adt,
    analysis,
    build_module,
    dataflow_pattern,
    expr,
    expr_functor,
    frontend,
    function,
    interpreter,
    loops,
    op,
    scope_builder,
    transform,
    ty,
)
from eqsat.relay import printer as printer  # it registers itself
from eqsat.relay.adt import (
    Clause,
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    TypeData,
)
from eqsat.relay.bind import bind
from eqsat.relay.executor import create_executor
from eqsat.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Op,
    Tuple,
    TupleGetItem,
    TupleWrapper,
    Var,
    const,
    var,
)
from eqsat.relay.module import IRModule
from eqsat.relay.op import *  # type: ignore[no-redef]  # noqa: F403 - relay.add is relay.op.add
from eqsat.relay.op.contrib import cmsisnn, dnnl, tensorrt  # noqa: F401 - registers passes and pattern tables
from eqsat.relay.references import RefCreate, RefRead, RefWrite
from eqsat.relay.scope_builder import ScopeBuilder
from eqsat.relay.ty import (
    Any,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
    scalar_type,
)
from eqsat.relay.visitor import ExprFunctor, ExprMutator, ExprVisitor
from eqsat.relay.viz import viz

if typing.TYPE_CHECKING:
    from eqsat.relay import prelude, testing
    from eqsat.relay.parser import Span, fromtext, parse, parse_expr
    from eqsat.relay.prelude import Prelude

_MODULE_OF = {
    "Prelude": "prelude",
    "Span": "parser",
    "fromtext": "parser",
    "parse": "parser",
    "parse_expr": "parser",
    "parser": "parser",
    "prelude": "prelude",
    "testing": "testing",
}
"""What is loaded on first use."""

__all__ = [
    "Any", "Call", "Clause", "Constant", "Constructor", "Expr", "ExprFunctor", "ExprMutator", "ExprVisitor",
    "FuncType", "Function", "GlobalTypeVar", "GlobalVar", "IRModule", "If", "IncompleteType", "Let", "Match", "Op",
    "Pattern", "PatternConstructor", "PatternTuple", "PatternVar", "PatternWildcard", "Prelude", "RefCreate",
    "RefRead", "RefType", "RefWrite", "ScopeBuilder", "Span", "TensorType", "Tuple", "TupleGetItem", "TupleType",
    "TupleWrapper", "Type", "TypeCall", "TypeData", "TypeVar", "Var", "adt", "analysis", "bind", "build_module",
    "const", "create_executor", "dataflow_pattern", "expr", "expr_functor", "fromtext", "frontend", "function",
    "interpreter", "loops", "op", "parse", "parse_expr", "prelude", "scalar_type", "scope_builder", "testing",
    "transform", "ty", "var", "viz",
]  # fmt: skip
# ``from eqsat.relay import *`` leaves Python's own ``abs``, ``max`` and so on as they are
__all__ += sorted({*vars(op)["__all__"]} - {*dir(builtins)})


def __getattr__(name: str) -> typing.Any:
    """What is not loaded yet."""
    return load_name(__name__, _MODULE_OF, name)


def __dir__() -> list[str]:
    """What is meant for users: the operators, and not every module of the package that happens to be loaded."""
    return sorted({*__all__, *vars(op)["__all__"]})
