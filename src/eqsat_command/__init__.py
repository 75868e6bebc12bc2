"""The program ``eqsat``: outside of the package, so that an interrupt while that loads is told like any other."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from typing import Any

from eqsat_command.memory import end_out_of_memory, is_out_of_memory, watch


def main() -> None:
    """Load the command line and run it."""
    watch()
    codes: list[int] = []
    atexit.register(_end_at_once, codes)  # the first to be registered is the last to be called
    before = signal.signal(signal.SIGINT, _end)
    _open_streams()
    # unless NumPy's threads are told to sleep, they wait for work at full speed for some 0.03 seconds each time
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    try:
        from eqsat.cli import load_command
        from eqsat.cli import main as run

        load_command(*sys.argv[1:2])
        signal.signal(signal.SIGINT, before)
        run()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            codes.append(end.code or 0)
        raise
    except BaseException as error:
        if is_out_of_memory(error):
            end_out_of_memory()
        raise


def _end_at_once(codes: list[int]) -> None:
    """End the process with its exit code, if that is known, and leave the memory that it holds to the system.

    To free it object by object takes some hundredths of a second, as the search for what is garbage does.
    """
    if not codes or hasattr(sys, "last_value"):  # the command did not end, or something failed after it
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # Python tells of it when it ends
        return
    os._exit(codes[0])


def _end(*_: Any) -> None:
    """End at once: libraries may take an interrupt while they load for an error of theirs."""
    os.write(2, b"eqsat: interrupted, nothing is written\n")
    os._exit(130)


def _open_streams() -> None:
    """Open what is closed of the standard streams: else the next file that is opened takes the place of one.

    Input cannot be read and output not written then, which is told like other errors of files.
    """
    for number, (name, mode, flag) in enumerate(
        [("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY)]
    ):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, flag)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - it stays open
