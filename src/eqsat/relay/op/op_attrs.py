"""The classes of the attributes of calls, under TVM's names: ``op_attrs.Conv2DAttrs`` is that of ``nn.conv2d``."""

from __future__ import annotations

from eqsat.relay.attrs import Attrs, attrs_class
from eqsat.relay.attrs_names import attrs_class_name
from eqsat.relay.expr import Op


def __getattr__(name: str) -> type[Attrs]:
    for operator in Op.list_op_names():
        if attrs_class_name(operator) == name and Op.get(operator).fields:
            return attrs_class(operator)
    raise AttributeError(f"no operator has attributes of class {name!r}")
