"""What external compilers can take: pattern tables by compiler, for :func:`relay.transform.MergeComposite`."""

from eqsat.relay.op.contrib import register as register
from eqsat.relay.op.contrib.register import get_pattern_table, register_pattern_table

__all__ = ["get_pattern_table", "register", "register_pattern_table"]
