"""A separate process that computes models over constants, with limits on time and memory."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import Any

import onnx

from eqsat.errors import EvaluationError

SECONDS = 10.0
"""Time limit for one model, in seconds."""

MEMORY = 4 << 30
"""Memory limit of the process, in bytes."""

MOST_BYTES = 1 << 30
"""Maximum size of the constants of one model, in bytes; the model is sent as one message."""

_STARTING = 60.0
"""Time limit for starting the process on a busy machine, in seconds."""

_WORKER = Path(__file__).with_name("evaluator_worker.py")


class Evaluator:
    """Computes models without inputs, in one process that is started with the first of them.

    A model that exceeds a limit ends the process, and the next model gets a new one. Use the object as a context
    manager, or call :meth:`close`, to end the process.

    Args:
        seconds: Time limit for all models together, in seconds, without the start of the process.
    """

    def __init__(self, seconds: float):
        self._left = seconds
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def outputs(self, model: bytes, most: int) -> list[Any]:
        """Return the outputs of a model as ``TensorProto`` messages.

        Args:
            model: A model without inputs, as the bytes of its file.
            most: Maximum total size of the outputs, in bytes.

        Raises:
            EvaluationError: The model takes too much time or memory, or fails, or an output is too large or not a
                tensor.
        """
        if self._left <= 0:
            raise EvaluationError("there is no time left for it")
        request = struct.pack("<Q", most) + model
        try:
            process = self._started()
        except OSError as error:
            raise EvaluationError(f"no process can be started for it: {error.strerror or error}") from None
        seconds, start = min(self._left, SECONDS), time.perf_counter()
        answer = _exchange(process, request, seconds)
        taken = time.perf_counter() - start
        self._left -= taken
        if answer is None:
            self.close()
            late = taken >= seconds
            raise EvaluationError(f"it takes more than {seconds:.3g} seconds" if late else "it ends the process")
        found = onnx.GraphProto.FromString(answer)
        if found.doc_string:
            raise EvaluationError(found.doc_string)
        return list(found.initializer)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_WORKER), str(MEMORY)],  # not to import modules from its folder
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )
            if _exchange(self._process, None, _STARTING) is None:
                self.close()
                raise OSError("it does not start")
        return self._process


def _exchange(process: subprocess.Popen[bytes], request: bytes | None, seconds: float) -> bytes | None:
    """Return the answer to a request, or the first message of a process; None if it ends or is too late."""
    assert process.stdin is not None
    assert process.stdout is not None
    timer = Timer(seconds, process.kill)
    timer.daemon = True
    timer.start()
    try:
        if request is not None:
            process.stdin.write(struct.pack("<Q", len(request)))
            process.stdin.write(request)
            process.stdin.flush()
        head = process.stdout.read(8)
        if len(head) < 8:
            return None
        (length,) = struct.unpack("<Q", head)
        answer = process.stdout.read(length)
        return answer if len(answer) == length else None
    except OSError:  # it does not read what is written
        return None
    finally:
        timer.cancel()
