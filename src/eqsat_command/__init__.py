"""The program ``eqsat``: outside of the package, so that an interrupt while that loads is told like any other."""

from __future__ import annotations

import sys


def main() -> None:
    """Load the command line and run it."""
    try:
        from eqsat.cli import main as run
    except KeyboardInterrupt:
        print("eqsat: interrupted, nothing is written", file=sys.stderr)
        sys.exit(130)
    run()
