"""The cost model: seconds of kernels in the runtime, measured here before or on demand."""

from __future__ import annotations

import logging
from collections import Counter

from eqsat.calibration.kernels import Kernel, kernel_of
from eqsat.calibration.measuring import Setup
from eqsat.calibration.profile import Profile, cached, calibrate, remember
from eqsat.cost import CostModel, CostNode, Roofline
from eqsat.cost.models import flops, moved_bytes

_log = logging.getLogger(__name__)


class Calibrated(CostModel):
    """Seconds of a kernel in the runtime.

    What a profile does not have is estimated by kernels of the same operators, see :mod:`eqsat.calibration.fitted`, and
    as long as there are few of any by the roofline of a processor.

    Args:
        profile: What was measured.
        on_demand: Whether what is asked for and not known is measured by :meth:`settle`, and kept in the user's cache.

    Attributes:
        estimated: The kernels that were asked for and estimated, by key.
        unknown: How often a node was asked for that is no kernel, by operator.
    """

    unit = "seconds in the runtime"

    def __init__(self, profile: Profile, on_demand: bool = False) -> None:
        self.profile = profile
        self.on_demand = on_demand
        self.estimated: dict[str, Kernel] = {}
        self.unknown: Counter[str] = Counter()
        self._fitted = profile.fitted()
        self._roofline = Roofline("cpu")

    @staticmethod
    def here(setup: Setup) -> Calibrated:
        """Return a model that measures what it is asked for and was not measured here before.

        Raises:
            ModelError: There is no onnxruntime.
            ProfileError: The cache cannot be read.
        """
        return Calibrated(cached(setup), on_demand=True)

    def __call__(self, node: CostNode) -> float:
        if not node.runs:
            return 0.0
        kernel = kernel_of(node)
        if kernel is None:
            self.unknown[node.op] += 1
            return self._estimate(node, node.op)
        known = self.profile.entries.get(kernel.key)
        if known is not None and known.seconds is not None:
            return known.seconds
        self.estimated[kernel.key] = kernel
        return self._estimate(node, kernel.family)

    def settle(self) -> bool:
        """Measure what was asked for and is not known, if that is done on demand."""
        if not self.on_demand or not self.measure_estimated():
            return False
        remember(self.profile)
        return True

    def measure_estimated(self) -> int:
        """Measure what was asked for and is not known; return how many kernels that are.

        Raises:
            ModelError: onnxruntime is missing or does not start.
        """
        new = [each for key, each in self.estimated.items() if key not in self.profile.entries]
        if not new:
            return 0
        _log.info("measuring %d kernels", len(new))
        calibrate(self.profile, new)
        entries = self.profile.entries
        self.estimated = {key: each for key, each in self.estimated.items() if entries[key].seconds is None}
        self._fitted = self.profile.fitted()
        return len(new)

    def _estimate(self, node: CostNode, family: str) -> float:
        found = self._fitted.seconds(family, flops(node), moved_bytes(node))
        return self._roofline(node) if found is None else found
