"""The dimensions of shapes, under the names of ``tvm.tir.expr``."""

from eqsat.relay.ty import Any, IntImm


def Var(name: str, dtype: str = "int32") -> Any:
    """Return the dimension of that name: of one size wherever it stands, which is not known before run time.

    Args:
        name: The name.
        dtype: Accepted as in TVM; a size has no type here.
    """
    return Any(name)


SizeVar = Var

__all__ = ["Any", "IntImm", "SizeVar", "Var"]
