"""Pass infrastructure as ``tvm.transform`` has it."""

from eqsat.relay.transform.base import Pass, PassContext, PassInfo, Sequential, module_pass

__all__ = ["Pass", "PassContext", "PassInfo", "Sequential", "module_pass"]
