"""What tests and examples use: passes over a single expression, and known networks with random weights.

Each network is a module of its own, such as ``testing.resnet``, whose ``get_net`` makes the function and whose
``get_workload`` makes a module and weights of it.
"""

from __future__ import annotations

from eqsat.errors import ArgumentError
from eqsat.relay.analysis import list_op_freqs
from eqsat.relay.expr import Expr, Function
from eqsat.relay.module import IRModule
from eqsat.relay.testing import (
    bert,
    dcgan,
    densenet,
    inception_v3,
    init,
    layers,
    lstm,
    mlp,
    mobilenet,
    resnet,
    squeezenet,
    temp_op_attr,
    vgg,
)
from eqsat.relay.testing.init import create_workload
from eqsat.relay.transform import InferType, Pass

__all__ = [
    "bert", "count_ops", "create_workload", "dcgan", "densenet", "inception_v3", "init", "layers", "lstm", "mlp",
    "mobilenet", "resnet", "run_infer_type", "run_opt_pass", "squeezenet", "temp_op_attr", "vgg",
]  # fmt: skip


def run_opt_pass(expr: Expr, opt_pass: Pass) -> Expr:
    """Return what a pass makes of an expression, whose types are inferred before.

    Args:
        expr: A function, or the body of a function of its free variables.
        opt_pass: The pass.

    Raises:
        ArgumentError: ``opt_pass`` is not a pass.
    """
    if not isinstance(opt_pass, Pass):
        hint = "; call it to make the pass" if callable(opt_pass) else ""
        raise ArgumentError(f"run_opt_pass takes a pass, not {opt_pass!r}{hint}")
    main = opt_pass(InferType()(IRModule.from_expr(expr)))["main"]
    return main if isinstance(expr, Function) else main.body


def run_infer_type(expr: Expr) -> Expr:
    """Return an expression with the types of its nodes."""
    return run_opt_pass(expr, InferType())


def count_ops(expr: Expr) -> dict[str, int]:
    """Return how many calls of each operator there are in an expression."""
    return list_op_freqs(IRModule.from_expr(expr))
