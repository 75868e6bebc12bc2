"""Modules and initial weights of networks."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

import numpy as np

from eqsat.errors import ArgumentError
from eqsat.nd import NDArray, array
from eqsat.relay.expr import Function
from eqsat.relay.infer import infer_module
from eqsat.relay.module import IRModule
from eqsat.relay.ty import is_static

_FILLS = {"bias": 0.0, "gamma": 1.0, "beta": 0.0, "mean": 0.0, "var": 1.0}
"""Initial values of parameters, by how their names end."""


class Initializer:
    """Fills arrays with initial values; how the name of a parameter ends says what it is.

    Subclasses say how weights are filled, by ``_init_weight``.

    Args:
        seed: The seed of random values.
    """

    def __init__(self, seed: int = 0):
        self.random = np.random.RandomState(seed)

    def __call__(self, desc: str, arr: Any) -> None:
        """Fill ``arr``, a NumPy array, with initial values of the parameter named ``desc``.

        Raises:
            ArgumentError: The name does not say what the parameter is.
        """
        if desc.endswith("weight"):
            self._init_weight(desc, arr)
            return
        fill = next((value for end, value in _FILLS.items() if desc.endswith(end)), None)
        if fill is None:
            raise ArgumentError(f"parameter {desc!r} cannot be initialized: no name ends in {['weight', *_FILLS]}")
        arr[:] = fill

    def _init_weight(self, name: str, arr: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not say how weights are initialized")


class Xavier(Initializer):
    """Uniform random weights in a range that depends on the number of inputs and outputs of a layer.

    Args:
        rnd_type: ``"uniform"``, the only distribution there is.
        factor_type: Which number counts: of the inputs ``"in"``, of the outputs ``"out"`` or of both ``"avg"``.
        magnitude: The variance of the weights is a third of this over that number.
        seed: The seed of random values.

    Raises:
        ArgumentError: One of the two names is unknown.
    """

    def __init__(self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3, seed: int = 0):
        super().__init__(seed)
        if rnd_type != "uniform" or factor_type not in ("avg", "in", "out"):
            raise ArgumentError(f"no distribution {rnd_type!r} with factor {factor_type!r}: use 'uniform' with 'avg'")
        self.factor_type = factor_type
        self.magnitude = float(magnitude)

    def _init_weight(self, name: str, arr: Any) -> None:
        if arr.ndim < 2:
            raise ArgumentError(f"weight {name!r} is a vector: the number of inputs and outputs needs two axes")
        window = math.prod(arr.shape[2:])
        outputs, inputs = arr.shape[0] * window, arr.shape[1] * window
        counted = {"avg": (inputs + outputs) / 2, "in": inputs, "out": outputs}[self.factor_type]
        if "depthwise" in name:  # each output has one input
            counted = window
        scale = math.sqrt(self.magnitude / counted)
        arr[:] = self.random.uniform(-scale, scale, arr.shape)


class Constant(Initializer):
    """Weights that are all equal, and sum to 1."""

    def _init_weight(self, name: str, arr: Any) -> None:
        arr[:] = 1.0 / arr.size


def create_workload(
    net: Function, initializer: Initializer | None = None, seed: int = 0
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return a module of a network, with types, and weights by the names of its parameters.

    Args:
        net: The network. Its parameter ``data`` is the input and has no weights.
        initializer: Makes the weights; by default :class:`Xavier`.
        seed: The seed of random values.

    Raises:
        ArgumentError: A parameter has no known shape, or a name that does not say what it is.
    """
    module = infer_module(IRModule.from_expr(net))
    initializer = initializer or Xavier()
    initializer.random = np.random.RandomState(seed)
    weights = {}
    for param in module["main"].params:
        ty = param.checked_type
        if param.name_hint == "data":
            continue
        if not is_static(ty):
            raise ArgumentError(f"parameter {param.name_hint!r} is of type {ty}: weights need a known shape")
        weight = np.zeros(ty.concrete_shape, ty.dtype)
        initializer(param.name_hint, weight)
        weights[param.name_hint] = array(weight)
    return module, weights


P = ParamSpec("P")


def workload_of(get_net: Callable[P, Function]) -> Callable[P, tuple[IRModule, dict[str, NDArray]]]:
    """Return the ``get_workload`` of a network: what :func:`create_workload` makes of ``get_net(...)``."""

    @wraps(get_net)
    def get_workload(*args: P.args, **kwargs: P.kwargs) -> tuple[IRModule, dict[str, NDArray]]:
        return create_workload(get_net(*args, **kwargs))

    get_workload.__name__ = get_workload.__qualname__ = "get_workload"
    return get_workload
