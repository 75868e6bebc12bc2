"""Costs from the user's own runtime: kernels are timed in onnxruntime, and graphs cost what their kernels take."""

from eqsat.calibration.kernels import Kernel, kernel_of
from eqsat.calibration.measuring import Setup, Timing, measure
from eqsat.calibration.model import Calibrated
from eqsat.calibration.profile import Entry, Machine, Profile, cache_folder, calibrate, prune
from eqsat.cost.runtimes import LEVELS

__all__ = [
    "LEVELS",
    "Calibrated",
    "Entry",
    "Kernel",
    "Machine",
    "Profile",
    "Setup",
    "Timing",
    "cache_folder",
    "calibrate",
    "kernel_of",
    "measure",
    "prune",
]
