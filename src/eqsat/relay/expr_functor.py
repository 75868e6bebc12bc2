"""The visitor classes, under the name that TVM's users know."""

from eqsat.relay.visitor import ExprFunctor, ExprMutator, ExprVisitor

__all__ = ["ExprFunctor", "ExprMutator", "ExprVisitor"]
