"""The program ``eqsat``: outside of the package, so that an interrupt while that loads is told like any other."""

from __future__ import annotations

import os
import signal
from typing import Any


def main() -> None:
    """Load the command line and run it."""
    before = signal.signal(signal.SIGINT, _end)
    from eqsat.cli import main as run

    signal.signal(signal.SIGINT, before)
    run()


def _end(*_: Any) -> None:
    """End at once: libraries may take an interrupt while they load for an error of theirs."""
    os.write(2, b"eqsat: interrupted, nothing is written\n")
    os._exit(130)
