"""A cost model that runs each operator once and stores the measured times in a file."""

from __future__ import annotations

import json
import math
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from eqsat.cost.models import CostFunction, CostModel, CostNode, Roofline
from eqsat.errors import EqsatError, ExtractionError
from eqsat.files import replacing
from eqsat.relay.expr import Op
from eqsat.relay.interpreter import evaluate_op
from eqsat.relay.ty import TupleType, Type, is_static

_RUNS = 5
_ENOUGH = 0.05  # seconds after which an operator is not run again


class Measured(CostModel):
    """Measured seconds of the operator's NumPy kernel on arrays of the node's types: the minimum of a few runs.

    Args:
        cache: JSON file of earlier measurements, by operator, attributes and types; it is written after each new
            measurement. Without it, measurements are lost with the object.
        otherwise: A cost model in seconds for nodes that cannot be run, because there is no kernel, a dimension is
            unknown, or the generated values do not fit.

    Raises:
        ExtractionError: The file is not such a cache.
    """

    unit = "seconds, measured"

    def __init__(self, cache: str | os.PathLike[str] | None = None, otherwise: CostFunction | None = None) -> None:
        self.path = Path(cache) if cache is not None else None
        self.otherwise = otherwise if otherwise is not None else Roofline("cpu")
        self.seconds: dict[str, float | None] = _load(self.path) if self.path is not None else {}

    def __call__(self, node: CostNode) -> float:
        if not node.runs:
            return 0.0
        if node.body:
            return math.fsum(map(self, node.body))
        key = _key(node)
        if key not in self.seconds:
            self.seconds[key] = _measure(node)
            self._save()
        measured = self.seconds[key]
        return self.otherwise(node) if measured is None else measured

    def _save(self) -> None:
        if self.path is not None:
            with replacing(self.path) as part:
                part.write_text(json.dumps(self.seconds, indent=0, sort_keys=True))


def _load(path: Path) -> dict[str, float | None]:
    if not path.exists():
        return {}
    try:
        table = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ExtractionError(f"{path} is not a cache of measured costs: {error}; remove it") from error
    if not isinstance(table, dict) or not all(v is None or isinstance(v, (int, float)) for v in table.values()):
        raise ExtractionError(f"{path} is not a cache of measured costs: it must map keys to seconds; remove it")
    return table


def _key(node: CostNode) -> str:
    attrs = sorted((node.attrs or {}).items())
    return f"{node.op}({', '.join(map(str, node.arg_types))}) {attrs!r} -> {node.type}"


def _measure(node: CostNode) -> float | None:
    """Seconds of the fastest run, None where the operator cannot be run."""
    op = Op.find(node.op)
    arguments = [_value(ty) for ty in node.arg_types]
    if op is None or op.kernel is None or any(value is None for value in arguments):
        return None
    best, spent = np.inf, 0.0
    for _ in range(_RUNS):
        started = time.perf_counter()
        try:
            evaluate_op(op, node.attrs, arguments)  # type: ignore[arg-type]
        except EqsatError:
            return None
        seconds = time.perf_counter() - started
        best, spent = min(best, seconds), spent + seconds
        if spent > _ENOUGH:
            break
    return float(best)


def _value(ty: Type | None) -> Any:
    """An array (a tuple of arrays) of the type, None where a dimension is unknown: floats in [0.1, 1), integers 0."""
    if isinstance(ty, TupleType):
        fields = [_value(field) for field in ty.fields]
        return None if any(field is None for field in fields) else tuple(fields)
    if not is_static(ty):
        return None
    dtype = np.dtype(ty.dtype)
    if dtype.kind != "f":
        return np.zeros(ty.concrete_shape, dtype)
    return np.random.default_rng(0).uniform(0.1, 1.0, ty.concrete_shape).astype(dtype)
