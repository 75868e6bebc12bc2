"""Telling that there is no memory: each library says so in its own way, and some end the process."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import sys
from typing import NoReturn

_SAID = (
    "bad_alloc",
    "bad allocation",
    "annot allocate memory",
    "ailed to allocate",
    "nable to allocate",
    "failed to map segment",
    "can't start new thread",
    "pthread_create",
    "PosixThread",
    "ThreadPoolBuildError",
    "error return without exception set",
)
"""What errors of the system's loader, C++, Rust and Python say where there is no memory, or none for a thread."""

_PR_SET_PDEATHSIG = 1
"""Of ``prctl``: which signal the process gets when its parent ends.

Source: https://man7.org/linux/man-pages/man2/PR_SET_PDEATHSIG.2const.html
"""


_LOADER_ENDED = 127
"""The exit code of a process that the system's loader ends, for want of memory for the data of a thread.

Source: ``_dl_fatal_printf`` of glibc.
"""


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that it came of, is that there is no memory."""
    while error is not None:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return True
        if any(said in str(error) for said in _SAID):
            return True
        error = error.__cause__ or error.__context__
    return False


def end_out_of_memory() -> NoReturn:
    """End the process with one line that says what memory there is, and exit code 2."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        told = "give lower limits, such as --nodes, or smaller sizes with --dim"
    else:
        told = f"the shell allows {limit >> 20} MB of address space (ulimit -v)"
    os.write(2, f"eqsat: out of memory: {told}\n".encode())
    os._exit(2)


def end_with_parent() -> None:
    """Have the system end this process when the thread that started it ends (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def watch() -> None:
    """Where memory is limited, go on in a process of its own, and tell here if it ends for want of memory.

    An allocation that fails in the engine ends the process that asks for it.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY or sys.platform != "linux":
        return
    child = os.fork()
    if not child:
        end_with_parent()
        return
    waited = {signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        told = signal.sigwaitinfo(waited)
        if told.si_signo != signal.SIGCHLD and told.si_code <= 0:  # a process sent it; a terminal tells both
            os.kill(child, told.si_signo)
    code = os.waitstatus_to_exitcode(status)
    if -code in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGTRAP) or code == _LOADER_ENDED:
        end_out_of_memory()
    os._exit(code if code >= 0 else 128 - code)
