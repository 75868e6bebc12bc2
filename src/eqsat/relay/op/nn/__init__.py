"""Neural-network operators: ``relay.nn.conv2d`` and so on."""

from eqsat.relay.op.nn import (
    activation,
    arrange,
    blocks,
    conv,
    gradients,
    heads,
    losses,
    matrix,
    norm,
    packed,
    pool,
    recurrent,
    sampling,
    sparse,
)
from eqsat.relay.op.nn.activation import *  # noqa: F403 - each module lists its operators
from eqsat.relay.op.nn.arrange import *  # noqa: F403
from eqsat.relay.op.nn.blocks import *  # noqa: F403
from eqsat.relay.op.nn.conv import *  # noqa: F403
from eqsat.relay.op.nn.gradients import *  # noqa: F403
from eqsat.relay.op.nn.heads import *  # noqa: F403
from eqsat.relay.op.nn.losses import *  # noqa: F403
from eqsat.relay.op.nn.matrix import *  # noqa: F403
from eqsat.relay.op.nn.norm import *  # noqa: F403
from eqsat.relay.op.nn.packed import *  # noqa: F403
from eqsat.relay.op.nn.pool import *  # noqa: F403
from eqsat.relay.op.nn.recurrent import *  # noqa: F403
from eqsat.relay.op.nn.sampling import *  # noqa: F403
from eqsat.relay.op.nn.sparse import *  # noqa: F403

_MODULES = (
    activation, arrange, blocks, conv, gradients, heads, losses, matrix, norm, packed, pool, recurrent,
    sampling, sparse,
)  # fmt: skip
__all__ = [name for module in _MODULES for name in module.__all__]
