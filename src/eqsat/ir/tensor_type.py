"""Types of tensors, under the name of ``tvm.ir.tensor_type``."""

from eqsat.relay.ty import TensorType

__all__ = ["TensorType"]
