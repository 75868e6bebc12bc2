"""Operators: ``relay.op.add``, ``relay.op.nn.conv2d`` and so on build calls.

``__all__`` lists the operators and the packages of more of them: what :mod:`eqsat.relay` offers as ``relay.add``.
"""

from typing import TYPE_CHECKING

from eqsat.relay.op import (
    algorithm,
    create,
    devices,
    fixed_point,
    index,
    order,
    rearrange,
    reduce,
    scatter,
    signal,
    sparse,
    tensor,
    transform,
)
from eqsat.relay.op import annotation as annotation
from eqsat.relay.op import contrib as contrib
from eqsat.relay.op import dyn as dyn
from eqsat.relay.op import image as image
from eqsat.relay.op import nn as nn
from eqsat.relay.op import op as op
from eqsat.relay.op import op_attrs as op_attrs
from eqsat.relay.op import qnn as qnn
from eqsat.relay.op import random as random
from eqsat.relay.op import strategy as strategy
from eqsat.relay.op import vision as vision
from eqsat.relay.op.algorithm import *  # noqa: F403 - each module lists its operators
from eqsat.relay.op.create import *  # noqa: F403
from eqsat.relay.op.devices import *  # noqa: F403
from eqsat.relay.op.fixed_point import *  # noqa: F403
from eqsat.relay.op.index import *  # noqa: F403
from eqsat.relay.op.op import get as get
from eqsat.relay.op.op import register_alter_op_layout as register_alter_op_layout
from eqsat.relay.op.op import register_convert_op_layout as register_convert_op_layout
from eqsat.relay.op.op import register_legalize as register_legalize
from eqsat.relay.op.op import register_op_attr as register_op_attr
from eqsat.relay.op.order import *  # noqa: F403
from eqsat.relay.op.rearrange import *  # noqa: F403
from eqsat.relay.op.reduce import *  # noqa: F403
from eqsat.relay.op.scatter import *  # noqa: F403
from eqsat.relay.op.signal import *  # noqa: F403
from eqsat.relay.op.sparse import *  # noqa: F403
from eqsat.relay.op.tensor import *  # noqa: F403
from eqsat.relay.op.transform import *  # noqa: F403

from eqsat.relay.op import levels as levels  # isort: skip - after all operators are defined

_MODULES = (
    algorithm, create, devices, fixed_point, index, order, rearrange, reduce, scatter, signal, sparse, tensor,
    transform,
)  # fmt: skip
if not TYPE_CHECKING:  # type checkers read no lists that are computed
    __all__ = ["annotation", "image", "nn", "qnn", "random", "vision"]
    __all__ += [name for module in _MODULES for name in module.__all__]
