"""Losses: how far predictions are from targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.op.index import bounded
from eqsat.relay.op.op import Builder, Field, OpPattern, define
from eqsat.relay.op.reduce import accumulator
from eqsat.relay.op.types import check_dtype, ranked, size, tensor, unify
from eqsat.relay.traits import Trait
from eqsat.relay.ty import TensorType, Type


def _entropy_type(attrs: Any, args: Sequence[Type]) -> Type:
    predictions, targets = ranked(args[0], 2, "predictions"), ranked(args[1], 2, "targets")
    for a, b in zip(predictions.shape, targets.shape, strict=True):
        unify(a, b, "the sizes of predictions and targets,")
    return TensorType((), check_dtype(predictions, targets))


def _cross_entropy(name: str, logarithm: Callable[[Any], Any], traits: Trait = Trait.NONE) -> Builder:
    def kernel(attrs: Any, predictions: Any, targets: Any) -> Any:
        products = logarithm(predictions.astype(accumulator(predictions.dtype), copy=False)) * targets
        return (-products.sum() / len(predictions)).astype(predictions.dtype)

    return define(
        f"nn.{name}",
        "predictions targets",
        infer=_entropy_type,
        kernel=kernel,
        kind=OpPattern.OPAQUE,
        flops=lambda attrs, args, ty: 3 * size(args[0]),
        traits=traits,
    )


cross_entropy = _cross_entropy("cross_entropy", np.log)
"""The mean over the first dimension of ``-sum(log(predictions) * targets)``."""

cross_entropy_with_logits = _cross_entropy("cross_entropy_with_logits", lambda logits: logits, Trait.COMMUTATIVE)
"""The same of predictions that are logarithms of probabilities already."""


def _likelihood_type(attrs: Any, args: Sequence[Type]) -> Type:
    predictions, targets, weights = tensor(args[0]), tensor(args[1]), ranked(args[2], 1, "weights")
    if len(predictions.shape) != len(targets.shape) + 1:
        raise TypeCheckError("predictions must have one dimension more than targets")
    place = min(1, len(targets.shape))
    unify(predictions.shape[place], weights.shape[0], "the classes of predictions and weights,")
    for a, b in zip((*predictions.shape[:place], *predictions.shape[place + 1 :]), targets.shape, strict=True):
        unify(a, b, "the sizes of predictions and targets,")
    if not targets.dtype.startswith(("int", "uint")):
        raise TypeCheckError(f"targets must be integers, not {targets.dtype}")
    dtype = check_dtype(predictions, weights)
    return TensorType(targets.shape if attrs.reduction == "none" else (), dtype)


def _likelihood(attrs: Any, predictions: Any, targets: Any, weights: Any) -> Any:
    place, dtype = min(1, targets.ndim), predictions.dtype
    counted = targets != attrs.ignore_index
    classes = bounded(np.where(counted, targets, 0), predictions.shape[place], "fast")
    found = np.take_along_axis(predictions, np.expand_dims(classes, place), place).squeeze(place)
    factors = np.where(counted, weights[classes], 0).astype(accumulator(dtype))
    losses = -found * factors
    if attrs.reduction == "none":
        return losses.astype(dtype)
    total = losses.sum()
    return np.asarray(total / factors.sum() if attrs.reduction == "mean" else total).astype(dtype)


nll_loss = define(
    "nn.nll_loss",
    "predictions targets weights",
    Field("reduction", "str", "mean", choices=("mean", "sum", "none")),
    Field("ignore_index", "int", -100),
    infer=_likelihood_type,
    kernel=_likelihood,
    kind=OpPattern.OUT_ELEMWISE_FUSABLE,
    flops=lambda attrs, args, ty: 3 * size(args[1]),
)
"""``-p[n, t, ...] * w[t]`` for the predictions p (N, classes, ...) and each target t (N, ...), none where t is ignored.

The mean is that weighted by w.
"""

__all__ = ["cross_entropy", "cross_entropy_with_logits", "nll_loss"]
