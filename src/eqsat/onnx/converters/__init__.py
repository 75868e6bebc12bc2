"""How operators are spelled in ONNX, both ways.

An operator that ONNX has too, with the same inputs and attributes, takes one line in a table of
:mod:`eqsat.onnx.converters.alike`. All others have an importer and an exporter in a module here:

* ``@imports("Conv")`` takes a :class:`~eqsat.onnx.converters.source.Source` and gives the expression of its
  first output (or a list, one for each output), or declines; a declined node passes through as it is.
* ``@exports("nn.conv2d")`` takes a call and a :class:`~eqsat.onnx.converters.target.Target` and gives the
  :class:`~eqsat.onnx.converters.target.OnnxNode` to write, or an expression of equal value.
"""

from eqsat.onnx.converters import (  # noqa: F401 - each fills the tables of importers and exporters
    activation,
    alike,
    arithmetic,
    axes,
    creation,
    dtypes,
    fused,
    fused_attention,
    indexing,
    matrix,
    normalization,
    quantized,
    recurrent,
    resizing,
    shape,
    windows,
)  # fmt: skip
from eqsat.onnx.converters.source import Declined, Source, importer_of
from eqsat.onnx.converters.target import OnnxNode, Target, exporter_of

__all__ = ["Declined", "OnnxNode", "Source", "Target", "exporter_of", "importer_of"]
