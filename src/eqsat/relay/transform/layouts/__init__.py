"""Passes that change the layouts in which operators work, and fit the others to them."""

from eqsat.relay.transform.layouts.inference import InferCorrectLayoutOutput
from eqsat.relay.transform.layouts.passes import AlterOpLayout, ConvertLayout, LayoutConfig

__all__ = ["AlterOpLayout", "ConvertLayout", "InferCorrectLayoutOutput", "LayoutConfig"]
