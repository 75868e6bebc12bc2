"""Models in onnxruntime."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eqsat.errors import ModelError
from eqsat.onnx.files import Given, save_to_run


def session(model: Given, path: Path, what: str, optimized: bool = False, packed: bool = False) -> Any:
    """A model in onnxruntime on the processor.

    Args:
        model: the model; one that is not a file is written to ``path``.
        path: where to write it.
        what: what to call it in errors.
        optimized: whether onnxruntime optimizes it too.
        packed: whether it copies weights to the layouts that its kernels are fastest with.

    Raises:
        ModelError: onnxruntime is missing, or does not load the model.
    """
    try:
        import onnxruntime
    except ModuleNotFoundError:
        raise ModelError("verification needs onnxruntime: pip install onnxruntime") from None
    except ImportError as error:
        raise ModelError(f"verification needs onnxruntime, which cannot be loaded: {error}") from None
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
    else:
        save_to_run(model, path)
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    options.log_severity_level = 4
    if not packed:
        options.add_session_config_entry("session.disable_prepacking", "1")
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ModelError(f"{what} does not load in onnxruntime: {reason_of(error)}") from None


def run_session(session: Any, feed: Mapping[str, Any], what: str) -> list[Any]:
    """The outputs of a model for the inputs that it has.

    Args:
        session: the model.
        feed: arrays by name; those that it has no input for are left out.
        what: what to call it in errors.

    Raises:
        ModelError: it does not run.
    """
    given = {value.name for value in (*session.get_inputs(), *session.get_overridable_initializers())}
    try:
        return list(session.run(None, {name: array for name, array in feed.items() if name in given}))
    except Exception as error:
        raise ModelError(f"{what} does not run: {reason_of(error)}") from None


def reason_of(error: Exception) -> str:
    """Return the message of an error of onnxruntime on one line."""
    return " ".join(str(error).split())[:300]
