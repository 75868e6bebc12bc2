"""Costs from the user's own runtime: kernels are timed in onnxruntime, and graphs cost what their kernels take."""

from eqsat.calibration.candidates import Candidate, Fastest, fastest
from eqsat.calibration.kernels import Kernel, kernel_of
from eqsat.calibration.measuring import Setup, Timing, measure
from eqsat.calibration.model import AsItRuns, Calibrated
from eqsat.calibration.prediction import predicted
from eqsat.calibration.profile import Entry, Machine, Profile, calibrate, prune, remember
from eqsat.calibration.usual import usual_kernels
from eqsat.cost.runtimes import LEVELS
from eqsat.files import cache_folder

__all__ = [
    "LEVELS",
    "AsItRuns",
    "Calibrated",
    "Candidate",
    "Entry",
    "Fastest",
    "Kernel",
    "Machine",
    "Profile",
    "Setup",
    "Timing",
    "cache_folder",
    "calibrate",
    "fastest",
    "kernel_of",
    "measure",
    "predicted",
    "prune",
    "remember",
    "usual_kernels",
]
