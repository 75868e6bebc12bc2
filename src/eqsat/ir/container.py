"""Sequences and mappings, under the names of ``tvm.ir.container``: Python's own."""

from collections.abc import Mapping

Array: type = tuple
Map: type = Mapping

__all__ = ["Array", "Map"]
