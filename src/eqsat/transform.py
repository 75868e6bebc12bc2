"""Pass infrastructure as ``tvm.transform`` has it."""

from eqsat.relay.transform.base import ModulePass, Pass, PassContext, PassInfo, Sequential, module_pass
from eqsat.relay.transform.instrument import PrintIR

__all__ = ["ModulePass", "Pass", "PassContext", "PassInfo", "PrintIR", "Sequential", "module_pass"]
