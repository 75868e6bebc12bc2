"""The names that TVM's users take from ``tvm.ir.transform``."""

from eqsat.transform import ModulePass, Pass, PassContext, PassInfo, Sequential, module_pass

__all__ = ["ModulePass", "Pass", "PassContext", "PassInfo", "Sequential", "module_pass"]
