"""Neural-network operators: ``relay.nn.conv2d`` and so on."""

from eqsat.relay.op.nn import activation, arrange, blocks, conv, heads, matrix, norm, pool
from eqsat.relay.op.nn.activation import *  # noqa: F403 - each module lists its operators
from eqsat.relay.op.nn.arrange import *  # noqa: F403
from eqsat.relay.op.nn.blocks import *  # noqa: F403
from eqsat.relay.op.nn.conv import *  # noqa: F403
from eqsat.relay.op.nn.heads import *  # noqa: F403
from eqsat.relay.op.nn.matrix import *  # noqa: F403
from eqsat.relay.op.nn.norm import *  # noqa: F403
from eqsat.relay.op.nn.pool import *  # noqa: F403

__all__: list[str] = []
__all__ += activation.__all__
__all__ += arrange.__all__
__all__ += blocks.__all__
__all__ += conv.__all__
__all__ += heads.__all__
__all__ += matrix.__all__
__all__ += norm.__all__
__all__ += pool.__all__
