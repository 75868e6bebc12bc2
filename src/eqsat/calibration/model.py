"""The cost model: seconds of kernels in the runtime, measured here before or on demand."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace

from eqsat.calibration.copies import NEEDED_ONLY
from eqsat.calibration.kernels import VERSION, Kernel, kernel_of
from eqsat.calibration.measuring import Setup
from eqsat.calibration.profile import NOISE, Profile, cached, calibrate, remember
from eqsat.calibration.sizes import Sizes, bound_node
from eqsat.cost import CostFunction, CostModel, CostNode, Roofline
from eqsat.cost.models import flops, moved_bytes

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Known:
    """How much a model knows of the kernels that it was asked for.

    Attributes:
        measured: How many were measured.
        noisy: Of how many of these the runs differ by more than they should.
        estimated: How many were estimated.
        unknown: How many nodes are no kernels, such as those of unknown sizes.
    """

    measured: int
    noisy: int
    estimated: int
    unknown: int

    def __str__(self) -> str:
        said = [f"{self.measured} measured"]
        said += [f"{self.noisy} of them by more than {NOISE:.0%} from run to run"] if self.noisy else []
        said += [f"{self.estimated} estimated"] if self.estimated else []
        said += [f"{self.unknown} nodes of unknown sizes or operators"] if self.unknown else []
        return ", ".join(said)


class AsItRuns(CostModel):
    """What a whole model takes by a cost model, with all kernels that the runtime makes of it.

    Args:
        priced: Prices of kernels.
    """

    as_it_runs = True

    def __init__(self, priced: CostFunction):
        self.priced = priced

    def __call__(self, node: CostNode) -> float:
        return self.priced(node)

    def settle(self) -> bool:
        return isinstance(self.priced, CostModel) and self.priced.settle()


class Calibrated(CostModel):
    """Seconds of a kernel in the runtime, among others.

    What a profile does not have is estimated by kernels of the same operators, see :mod:`eqsat.calibration.fitted`, and
    as long as there are few of any by the roofline of a processor.

    Args:
        profile: What was measured.
        on_demand: Whether what is asked for and not known is measured by :meth:`settle`, and kept in the user's cache.
        sizes: The sizes that open dimensions are taken to have, by name.
        seconds: For how long kernels are measured; those that are left are estimated. None to measure all.

    Attributes:
        estimated: The kernels that were asked for and estimated, by key.
        unknown: The nodes that were asked for and are no kernels, such as those of unknown sizes.
    """

    unit = "seconds in the runtime"

    def __init__(
        self,
        profile: Profile,
        on_demand: bool = False,
        sizes: Sizes | None = None,
        seconds: float | None = None,
    ) -> None:
        self.profile = profile
        self.seconds = seconds
        self.on_demand = on_demand
        self.sizes = sizes or {}
        self.estimated: dict[str, Kernel] = {}
        self.unknown: set[CostNode] = set()
        self._asked: set[str] = set()
        self._fitted = profile.fitted()
        self._roofline = Roofline("cpu")

    @staticmethod
    def here(setup: Setup, seconds: float | None = None) -> Calibrated:
        """Return a model that measures what it is asked for and was not measured here before.

        Args:
            setup: How the runtime runs.
            seconds: As for the class.

        Raises:
            ModelError: The runtime is missing.
            ProfileError: The cache cannot be read.
        """
        return Calibrated(cached(setup), on_demand=True, seconds=seconds)

    def with_sizes(self, sizes: Sizes) -> Calibrated:
        """Return a model that knows the same, and takes open dimensions to have these sizes."""
        return Calibrated(self.profile, self.on_demand, sizes, self.seconds) if sizes else self

    def key_of(self, node: CostNode) -> str | None:
        """Return the key of the kernel that computes a node; None where nothing runs, or it is no kernel."""
        kernel = kernel_of(self._bound(node)) if node.runs else None
        return None if kernel is None else kernel.key

    def _bound(self, node: CostNode) -> CostNode:
        node = bound_node(node, self.sizes) if self.sizes else node
        return replace(node, version=None) if self.profile.setup.runtime in NEEDED_ONLY else node

    def __call__(self, node: CostNode) -> float:
        return (self.profile.change or 0.0) + self._alone(self._bound(node)) if node.runs else 0.0

    def _alone(self, node: CostNode) -> float:
        """Seconds of a kernel where its like ran before."""
        kernel = kernel_of(node)
        if kernel is None:
            self.unknown.add(node)
            return self._estimate(node, node.op)
        known = self.profile.entries.get(kernel.key)
        if known is not None and known.seconds is not None:
            self._asked.add(kernel.key)
            return known.seconds
        self.estimated[kernel.key] = kernel
        other = self.profile.entries.get(kernel.key.partition(VERSION)[0])
        if other is not None and other.seconds is not None:  # the same in another opset
            return other.seconds
        return self._estimate(node, kernel.family)

    @property
    def known(self) -> Known:
        """How much it knows of what it was asked for."""
        entries = [self.profile.entries[key] for key in self._asked]
        return Known(len(entries), sum(each.is_noisy for each in entries), len(self.estimated), len(self.unknown))

    def settle(self) -> bool:
        """Measure what was asked for and is not known, if that is done on demand."""
        if not self.on_demand or not self.measure_estimated():
            return False
        remember(self.profile)
        return True

    def measure_estimated(self) -> int:
        """Measure what was asked for and is not known, the dearest first; return how many kernels were measured.

        Raises:
            ModelError: The runtime is missing or does not start.
        """
        new = [each for key, each in self.estimated.items() if key not in self.profile.entries]
        if not new or (self.seconds is not None and self.seconds <= 0.0):
            return 0
        _log.info("measuring %d kernels", len(new))
        if self.seconds is not None:
            new.sort(key=lambda each: -self._estimate(each.seen, each.family))
        begun = time.perf_counter()
        count = calibrate(self.profile, new, self.seconds)
        if self.seconds is not None:
            self.seconds -= time.perf_counter() - begun
        known = {key for key, each in self.profile.entries.items() if each.seconds is not None}
        self.estimated = {key: each for key, each in self.estimated.items() if key not in known}
        self._fitted = self.profile.fitted()
        return count

    def _estimate(self, node: CostNode, family: str) -> float:
        found = self._fitted.seconds(family, flops(node), moved_bytes(node))
        return self._roofline(node) if found is None else found
