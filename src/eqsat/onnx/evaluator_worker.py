"""A program that computes models over constants; a crash, a time limit or a memory limit ends only this program.

On standard input a request after another, on standard output an answer to each, every message after its length in 8
bytes. A request is the bytes that the outputs may have, in 8 bytes, and a model without inputs. The answer is a
``GraphProto`` with the outputs as initializers, or with what went wrong as ``doc_string``. Before the first request
comes an empty message: imports are done.

This file imports nothing of eqsat, so that it starts fast and needs little memory.
"""

from __future__ import annotations

import struct
import sys
import warnings
from collections.abc import Sequence
from os import dup, dup2, fdopen
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

try:
    import onnxruntime
except ImportError:
    onnxruntime = None


def main() -> None:
    """Answer requests until there are no more; the first argument is the memory allowed, in bytes."""
    answers = fdopen(dup(1), "wb")
    dup2(2, 1)  # what libraries print is no answer
    _limit_memory(int(sys.argv[1]))
    warnings.simplefilter("ignore")
    if onnxruntime is not None:
        onnxruntime.set_default_logger_severity(4)
    data = b""
    while True:
        answers.write(struct.pack("<Q", len(data)) + data)
        answers.flush()
        head = sys.stdin.buffer.read(8)
        if len(head) < 8:
            return
        request = sys.stdin.buffer.read(*struct.unpack("<Q", head))
        data = _answer(request[8:], *struct.unpack("<Q", request[:8])).SerializeToString()


def _limit_memory(most: int) -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    except (ImportError, OSError, ValueError):
        pass  # a system without such limits


def _answer(data: bytes, most: int) -> Any:
    answer = onnx.GraphProto()
    try:
        outputs = _computed(data)
        kinds = {type(each).__name__ for each in outputs if not isinstance(each, (np.ndarray, np.generic))}
        if kinds:
            answer.doc_string = f"it gives a {min(kinds)}, which is no tensor"
        elif sum(each.nbytes for each in outputs) > most:
            answer.doc_string = "the result is too large"
        else:
            answer.initializer.extend([numpy_helper.from_array(np.asarray(each, order="C")) for each in outputs])
    except MemoryError:
        answer.doc_string = "it takes too much memory"
    except Exception as error:  # whatever an implementation runs into
        answer.doc_string = f"it cannot be computed: {_one_line(error)}"
    return answer


def _computed(data: bytes) -> Sequence[Any]:
    """Return the outputs of a model, computed by onnxruntime or, if that fails, by the reference implementation."""
    if onnxruntime is not None:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # sums in one order on every machine
        try:
            session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
            found: Sequence[Any] = session.run(None, {})
            return found
        except Exception as error:
            first = error
            if "bad_alloc" in str(error) or "Failed to allocate memory" in str(error):
                raise MemoryError from None
    from onnx.reference import ReferenceEvaluator

    try:
        with np.errstate(all="ignore"):
            return list(ReferenceEvaluator(onnx.load_model_from_string(data)).run(None, {}))
    except Exception:
        if onnxruntime is None:
            raise
        raise first from None


def _one_line(error: Exception) -> str:
    """Return the message of an error, with its class if the message is short."""
    text = " ".join(str(error).split())
    return text[:200] if " " in text else f"{type(error).__name__} {text[:200]}".strip()


if __name__ == "__main__":
    main()
