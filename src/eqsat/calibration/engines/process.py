"""Programs of this folder as processes: a model that crashes or hangs there ends nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Timer
from typing import Any

_PROGRAMS = Path(__file__).parent

_SILENT = 30.0
"""Seconds for which a process may be silent before it is ended."""


def answers(program: str, request: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what a program says to a request, until it ends or is silent for too long; then end it.

    Args:
        program: The name of its module.
        request: What it is asked, which JSON can tell.
    """
    process = subprocess.Popen(
        [sys.executable, "-P", str(_PROGRAMS / f"{program}.py")],  # not to import modules from its folder
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        while (said := _line(process)) is not None:
            yield said
    except OSError:  # it does not read what is written
        pass
    finally:
        process.kill()
        process.communicate()


def _line(process: subprocess.Popen[str]) -> Any:
    """What the process says next; None if it ends or is silent for too long."""
    assert process.stdout is not None
    timer = Timer(_SILENT, process.kill)
    timer.daemon = True
    timer.start()
    try:
        line = process.stdout.readline()
        return json.loads(line) if line.endswith("\n") else None
    finally:
        timer.cancel()
