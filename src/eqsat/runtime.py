"""The names that TVM's users take from ``tvm.runtime``."""

from eqsat.nd import NDArray


class Module:
    """What a code generator makes of a function: a name for annotations, for eqsat has no code generator."""


__all__ = ["Module", "NDArray"]
