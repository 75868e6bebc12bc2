"""The names that TVM's users take from ``tvm.ir.transform``."""

from eqsat.transform import Pass, PassContext, PassInfo, Sequential, module_pass

__all__ = ["Pass", "PassContext", "PassInfo", "Sequential", "module_pass"]
