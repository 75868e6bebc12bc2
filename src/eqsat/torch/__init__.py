"""PyTorch: optimize exported programs, compile models, rewrite fx graphs.

Needs the packages of the extra ``torch``: ``pip install 'eqsat[torch]'``, where eqsat is installed already.
"""

from eqsat.errors import ModelError

try:
    import torch as _torch  # noqa: F401 - for the error when it is missing
except ImportError as error:
    raise ModelError(f"{error.name} is not installed: pip install torch") from None

from eqsat.torch.compiling import backend
from eqsat.torch.exported import Optimization, optimize, run
from eqsat.torch.graphs import Rewritten
from eqsat.torch.passes import graph_pass, rule

__all__ = ["Optimization", "Rewritten", "backend", "graph_pass", "optimize", "rule", "run"]
