"""Quantized operators under the name ``relay.qnn.op``."""

from eqsat.relay.op.qnn import compute, convert
from eqsat.relay.op.qnn.compute import *  # noqa: F403 - each module lists its operators
from eqsat.relay.op.qnn.convert import *  # noqa: F403

__all__: list[str] = []
__all__ += compute.__all__
__all__ += convert.__all__
