"""The names that TVM's users take from ``tvm.error``."""

from eqsat.errors import EqsatError, OperatorError

TVMError = DiagnosticError = EqsatError
OpError = OpNotImplemented = OpAttributeRequired = OpAttributeInvalid = OpAttributeUnImplemented = OperatorError

__all__ = [
    "DiagnosticError",
    "OpAttributeInvalid",
    "OpAttributeRequired",
    "OpAttributeUnImplemented",
    "OpError",
    "OpNotImplemented",
    "TVMError",
]
