"""Operators of object detection: ``relay.vision.non_max_suppression`` and so on."""

from eqsat.relay.op.vision import anchors, nms, proposals, regions
from eqsat.relay.op.vision.anchors import *  # noqa: F403 - each module lists its operators
from eqsat.relay.op.vision.nms import *  # noqa: F403
from eqsat.relay.op.vision.proposals import *  # noqa: F403
from eqsat.relay.op.vision.regions import *  # noqa: F403

__all__ = [name for module in (anchors, nms, proposals, regions) for name in module.__all__]
