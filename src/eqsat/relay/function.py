"""Functions, under the name that TVM's users know."""

from eqsat.relay.expr import Function, FunctionWithFields

__all__ = ["Function", "FunctionWithFields"]
