"""The dimensions of shapes, under the names of ``tvm.tir.expr``."""

from eqsat.errors import ArgumentError
from eqsat.relay.ty import Any, IntImm


def Var(name: str, dtype: str = "int32") -> Any:
    """Return the dimension of that name: of one size wherever it stands, which is not known before run time.

    Args:
        name: The name.
        dtype: Accepted as in TVM; a size has no type here.
    """
    return Any(name)


SizeVar = Var


def const(value: int, dtype: str = "int32") -> IntImm:
    """Return an integer immediate, such as a dimension of another dtype than int32."""
    if not isinstance(value, int) or not dtype.startswith(("int", "uint", "bool")):
        raise ArgumentError(f"const makes integers of an integer dtype, not {value!r} of {dtype}")
    return IntImm(dtype, value)


__all__ = ["Any", "IntImm", "SizeVar", "Var", "const"]
