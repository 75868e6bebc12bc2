"""What TVM's programs take from ``tvm.contrib``."""

from eqsat.contrib import download

__all__ = ["download"]
