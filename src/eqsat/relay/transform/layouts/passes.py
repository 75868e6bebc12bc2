"""AlterOpLayout and ConvertLayout: operators in other layouts than they were written in.

In a saturation the rules of :mod:`eqsat.rules.transposes` move transposes past operators, and ``layout-layout`` and
``layout-nothing`` of :mod:`eqsat.rules.shape` join and drop changes of layout. No rule gives a convolution another
layout: that is what these passes do, where the caller registers it or asks for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextvars import ContextVar, Token
from typing import Any

from eqsat.relay.expr import Call, Expr, Op
from eqsat.relay.transform.base import FunctionPass, Pass, PassInfo
from eqsat.relay.transform.layouts.converters import CONVERTERS
from eqsat.relay.transform.layouts.rewriter import Alter, LayoutRewriter, types_of_tensors


def AlterOpLayout() -> Pass:
    """Give calls the form that the operator attribute ``FTVMAlterOpLayout`` makes of them, and fit all others to it.

    The attribute is a function ``alter(attrs, args, types, result_type)`` that gives a call of as many arguments, or
    None; see :func:`eqsat.relay.op.register_alter_op_layout`.
    """

    def alter(call: Call, attrs: Any, args: list[Expr]) -> Any:
        registered = call.op.get_attr("FTVMAlterOpLayout") if isinstance(call.op, Op) else None
        return registered and registered(attrs, args, types_of_tensors(call), call.checked_type)

    return _rewriting(alter, PassInfo(3, "AlterOpLayout"))


def ConvertLayout(desired_layouts: Mapping[str, Sequence[str]]) -> Pass:
    """Convert operators to layouts, and fit all others to them.

    The operator attribute ``FTVMConvertOpLayout`` is a function ``convert(attrs, args, types, layouts)`` that gives the
    converted call or None. Convolutions, pools and resizing have one.

    Args:
        desired_layouts: the layouts of the arguments of each operator to convert, by its name. For a convolution
            ``["NHWC", "default"]`` are those of data and kernel, where the default kernel is the usual one.

    Raises:
        OperatorError: There is no operator of such a name.
        ArgumentError: A layout that the operator cannot be converted to.
    """
    wanted = {Op.get(name).name: [str(layout) for layout in layouts] for name, layouts in desired_layouts.items()}

    def alter(call: Call, attrs: Any, args: list[Expr]) -> Any:
        convert = _converter(call.op) if isinstance(call.op, Op) and call.op.name in wanted else None
        if convert is None or not isinstance(call.op, Op):
            return None
        config = LayoutConfig.current()
        if config is not None and config.check_skip():
            return None
        return convert(attrs, args, types_of_tensors(call), wanted[call.op.name])

    return _rewriting(alter, PassInfo(3, "ConvertLayout", ("InferType", "CanonicalizeOps")))


def _converter(op: Op) -> Any:
    return op.get_attr("FTVMConvertOpLayout") or CONVERTERS.get(op.name)


def _rewriting(alter: Alter, info: PassInfo) -> Pass:
    return FunctionPass(lambda function, mod, context: LayoutRewriter(alter).run(function), info, typed=True)


class LayoutConfig:
    """While entered, ConvertLayout leaves some of the calls that it could convert.

    Args:
        skip_layers: their numbers, counted from 0 in post-order.
    """

    def __init__(self, skip_layers: Collection[int] | None = None):
        self.skip_counter = 0
        self.skip_layers = skip_layers or ()
        self._token: Token[LayoutConfig | None] | None = None

    @staticmethod
    def current() -> LayoutConfig | None:
        """The innermost one that is entered."""
        return _CONFIG.get()

    def check_skip(self) -> bool:
        """Count a call, and say whether to leave it."""
        self.skip_counter += 1
        return self.skip_counter - 1 in self.skip_layers

    def __enter__(self) -> LayoutConfig:
        self._token = _CONFIG.set(self)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._token is not None:
            _CONFIG.reset(self._token)


_CONFIG: ContextVar[LayoutConfig | None] = ContextVar("layout configuration", default=None)
