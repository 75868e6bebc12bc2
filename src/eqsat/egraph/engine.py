"""The one module that talks to egglog.

The engine is used as a database: tables and rules declared by text, rows of integers inserted in bulk, rulesets run,
rows read back. Works on egglog 13.2 and 14.
"""

from __future__ import annotations

import ctypes
import logging
import math
import os
import re
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec, module_from_spec
from itertools import chain
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eqsat.errors import EngineError

_LIBRARY = "egglog.bindings"
_LOGGERS = ("egglog", "egglog_bridge", "egglog_core_relations")
"""The library's loggers, which tell at INFO of each command."""
_DESCRIPTORS = "/proc/self/fd"
_ALL = 100_000_000
"""More rows than a table has."""
_SMALL = 1 << 14
"""Rows of e-nodes and facts up to which a database is small: it holds some 30 MB then."""
_CONSTRUCTOR = re.compile(r"\(constructor (\w+) \(([^)]*)\)")
_WORD = re.compile(r"\((\w+) ")
_RIGHT_VERSION = 14
"""The first version whose rules find all matches where they are declared late; see :meth:`Engine._looks`."""


class RulesetRun(NamedTuple):
    """What one run of rulesets did.

    Args:
        matches: how many matches each rule had, by its name in the engine.
        seconds: each rule's share of the time.
        updated: whether anything in the database changed.
    """

    matches: dict[str, int]
    seconds: dict[str, float]
    updated: bool


class Rows(NamedTuple):
    """The rows of some tables, one table after the other.

    Args:
        counts: how many rows each table has.
        inputs: the inputs of all rows.
        outputs: the output of each row.
        hidden: whether rules do not see the row.
    """

    counts: list[int]
    inputs: NDArray[np.int64]
    outputs: NDArray[np.int64]
    hidden: NDArray[np.bool_]


class _FileToRead:
    """A file for what an engine reads, in memory where there is such.

    One without a folder is not left behind where the process is killed.
    """

    def __init__(self) -> None:
        self._is_in_memory = os.path.isdir(_DESCRIPTORS) and hasattr(os, "memfd_create")
        if self._is_in_memory:
            descriptor = os.memfd_create("eqsat")
            self.path = f"{_DESCRIPTORS}/{descriptor}"
        else:
            descriptor, self.path = tempfile.mkstemp(prefix="eqsat-")
        self._file = os.fdopen(descriptor, "wb")

    def write(self, text: str) -> None:
        """Put ``text`` in the place of what was in the file."""
        self._file.seek(0)
        self._file.write(text.encode())
        self._file.truncate()
        self._file.flush()

    def remove(self) -> None:
        self._file.close()
        if not self._is_in_memory:
            os.unlink(self.path)


class Engine:
    """One egglog database. After an :class:`EngineError` it can no longer be used.

    The thread that makes an engine is the only one that may use it and free its memory, by :meth:`close`.

    Raises:
        EngineError: The process was forked from one that had loaded the library.
    """

    def __init__(self) -> None:
        library = _library()
        _keep(None)
        self._commands = library
        self._span = library.RustSpan("eqsat", 0, 0)
        self._egraph = library.EGraph()
        self._together: dict[tuple[str, ...], str] = {}
        self._declared: list[str] = []
        self._joins: list[str] = []
        self._widths: dict[str, int] = {}
        self._looked = 0
        self._row_count = math.inf
        self._known: set[str] = set()
        self._given: dict[str, set[tuple[int, ...]]] = {}
        self._file = _FileToRead()
        self._unlink = weakref.finalize(self, self._file.remove)
        _open.add(self)

    def close(self) -> None:
        """Free the engine's memory; it can no longer be used.

        To free a small database takes ten milliseconds or more. The main thread keeps one until it makes another
        engine, in case that the process ends before.
        """
        if self._row_count <= _SMALL:
            _keep(self._egraph)
        self._egraph = None
        self._unlink()

    def forget(self) -> None:
        """Leave alone, in a forked process, what belongs to the process that made the engine."""
        self._unlink.detach()
        _never_free(self._egraph)

    def declare(self, text: str) -> None:
        """Declare a sort, table, ruleset or rule by a command of egglog.

        The engine reads what was declared when it is next used, all at once from a file: command by command takes half
        as long again.
        """
        self._declared.append(text)
        if constructor := _CONSTRUCTOR.match(text):
            self._widths[constructor[1]] = len(constructor[2].split())

    def relation(self, name: str, *columns: str) -> bool:
        """Declare a relation, to which :func:`put` adds rows, if there is none of that name; whether it is new.

        (The engine's own kind gives each row an id, for nothing.)
        """
        return self._declare_once(f"(function {name} ({' '.join(columns)}) Unit :no-merge)")

    def inbox(self, name: str, width: int) -> bool:
        """Declare a relation of so many i64 columns whose rows come by :meth:`insert`; whether it is new."""
        return self._declare_once(f"(relation {name} ({' '.join(['i64'] * width)}))")

    def rule(self, ruleset: str, premises: str, actions: str, name: str = "") -> None:
        """Declare a rule, if there is none like it; by its name :meth:`run` tells what it did."""
        named = name or f"{ruleset} {len(self._known)}"
        if self._declare_once(f"(rule ({premises}) ({actions}) :ruleset {ruleset}", f' :name "{named}")'):
            self._joins.append(premises)

    def _declare_once(self, text: str, rest: str = "") -> bool:
        is_new = text not in self._known
        if is_new:
            self._known.add(text)
            self.declare(text + rest)
        return is_new

    def insert(self, table: str, rows: NDArray[np.int64]) -> None:
        """Add rows to an inbox."""
        count, width = rows.shape
        line = "\t".join(["%d"] * width) + "\n"
        self._read_declared()
        self._file.write(line * count % tuple(rows.ravel().tolist()))
        with _engine_errors(table):
            self._run(self._commands.Input(self._span, table, self._file.path))

    def integers(self, table: str) -> list[tuple[int, ...]]:
        """The rows of a relation whose columns are all i64, sorted: cheap when they are few."""
        with _engine_errors(table):
            as_csv = self._commands.CSVPrintFunctionMode()
            (output,) = self._run(self._commands.PrintFunction(self._span, table, _ALL, None, as_csv))
        # a line reads: name,column,...,column
        return sorted(tuple(map(int, line.split(",")[1:])) for line in str(output).splitlines() if line.strip())

    def new_integers(self, table: str) -> Iterator[tuple[int, ...]]:
        """The rows of :meth:`integers` that this has not given before."""
        given = self._given.setdefault(table, set())
        for row in self.integers(table):
            if row not in given:
                given.add(row)
                yield row

    def run(self, *rulesets: str) -> RulesetRun:
        """Search all rules of ``rulesets``, then apply them, once."""
        ruleset = rulesets[0] if len(rulesets) == 1 else self._combined(rulesets)
        start = time.perf_counter()
        with _engine_errors(ruleset):
            (output,) = self._run(self._commands.RunSchedule(self._once(ruleset)))
        elapsed, report = time.perf_counter() - start, output.report
        # shares only: egglog 13 gives a thousandth of the time
        parts = {name: part.total_seconds() for name, part in report.search_and_apply_time_per_rule.items()}
        total = sum(parts.values())
        seconds = {name: elapsed * (part / total if total else 1 / len(parts)) for name, part in parts.items()}
        return RulesetRun(dict(report.num_matches_per_rule), seconds, report.updated)

    def _combined(self, rulesets: tuple[str, ...]) -> str:
        if rulesets not in self._together:
            name = self._together[rulesets] = f"together{len(self._together)}"
            self.declare(f"(unstable-combined-ruleset {name} {' '.join(rulesets)})")
        return self._together[rulesets]

    def saturate(self, ruleset: str) -> bool:
        """Run ``ruleset`` until it changes nothing; whether it changed anything."""
        until_done = self._commands.Saturate(self._span, self._once(ruleset))
        with _engine_errors(ruleset):
            (output,) = self._run(self._commands.RunSchedule(until_done))
        return bool(output.report.updated)

    def _once(self, ruleset: str) -> Any:
        return self._commands.Run(self._span, self._commands.RunConfig(ruleset))

    def sizes(self) -> dict[str, int]:
        """Rows of each table."""
        with _engine_errors("print-size"):
            (output,) = self._run(self._commands.PrintSize(self._span, None))
        return dict(output.sizes)

    def rows(self, *groups: Sequence[str]) -> list[Rows]:
        """The rows of groups of tables of classes and i64, all at one moment.

        Classes are numbers that mean nothing at another moment.
        """
        self._read_declared()
        with _engine_errors("freeze"):
            functions, to_int = self._egraph.freeze().functions, self._egraph.value_to_i64
        found = []
        for tables in groups:
            of = [functions[name].rows for name in tables]
            every = list(chain.from_iterable(of))
            inputs = np.fromiter(map(to_int, chain.from_iterable([row.inputs for row in every])), np.int64)
            outputs = np.fromiter([to_int(row.output) for row in every], np.int64)
            hidden = np.fromiter([row.subsumed for row in every], bool)
            found.append(Rows(list(map(len, of)), inputs, outputs, hidden))
        self._row_count = sum([len(rows.outputs) for rows in found])
        return found

    def _read_declared(self) -> None:
        _check_process()
        if self._declared:
            rules = [text for text in self._declared if text.startswith("(rule ")]
            others = [text for text in self._declared if not text.startswith("(rule ")]
            program = "\n".join([*others, *(self._looks() if _loses_matches() else ()), *rules])
            self._declared, self._joins = [], []
            self._file.write(program)
            with _engine_errors(program):
                self._egraph.run_program(self._commands.Include(self._span, self._file.path))

    def _looks(self) -> list[str]:
        """Rules that never run, each over one table of e-nodes, to be declared before those that join such tables.

        In egglog 13, a rule that is declared over tables with rows may find none of its matches: of eight equal rules
        in a row, the first three found none of twelve. Where a rule over one of its tables of e-nodes alone was
        declared just before, each found them. Why is not known; egglog 14 finds them in any case.
        """
        found = [] if self._looked else ["(ruleset unused)", "(relation looked (i64))"]
        seen: set[str] = set()
        for premises in self._joins:
            tables = [name for name in _WORD.findall(premises) if name in self._widths]
            if tables and seen.isdisjoint(tables):
                seen.add(tables[0])
                self._looked += 1
                columns = " ".join([f"v{place}" for place in range(self._widths[tables[0]])])
                found.append(f"(rule ((= e ({tables[0]} {columns}))) ((looked {self._looked})) :ruleset unused)")
        return found if seen else []

    def _run(self, *commands: Any) -> list[Any]:
        self._read_declared()
        outputs: list[Any] = self._egraph.run_program(*commands)
        return outputs


def put(row: str) -> str:
    """The action that adds ``row``, say ``(edge x y)``, to its relation."""
    return f"(set {row} ())"


# ---- the library, whose thread is in one process only

_open: weakref.WeakSet[Engine] = weakref.WeakSet()
"""The engines of this process."""

_kept: Any = None
"""The database of a small engine that the main thread has closed."""

_loaded: Any = None
"""Egglog's bindings, once they are loaded."""

_is_lost = False
"""Whether the library's thread is that of another process, of which this one is a fork."""


def _library() -> Any:
    """Egglog's bindings. They are loaded for the first engine, and not before: they start a thread.

    A forked process has no thread of its parent's. It can have an engine only if its parent has not loaded the library.

    Raises:
        EngineError: It has.
    """
    _check_process()
    global _loaded
    if _loaded is None:
        for logger in map(logging.getLogger, _LOGGERS):
            if logger.level == logging.NOTSET:
                logger.setLevel(logging.WARNING)
        _loaded = sys.modules.get(_LIBRARY) or _load_alone(_LIBRARY)
    return _loaded


@cache
def _loses_matches() -> bool:
    """Whether the installed version needs :meth:`Engine._looks`."""
    from importlib.metadata import version

    return int(version("egglog").partition(".")[0]) < _RIGHT_VERSION


def _load_alone(name: str) -> ModuleType:
    """A module without the package that it is in, whose import takes ten times as long.

    An import of that package gives the very same module later.

    Raises:
        ModuleNotFoundError: There is none.
    """
    package = find_spec(name.partition(".")[0])
    spec = package and PathFinder.find_spec(name, package.submodule_search_locations)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"no module named {name!r}", name=name)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules.pop(name, None)  # some versions enter themselves, and the package would lack the attribute
    sys.meta_path.insert(0, _Loaded(module))
    return module


class _Loaded(MetaPathFinder, Loader):
    """Gives a module to whoever imports it. (Egglog 14 panics where its library is loaded a second time.)"""

    def __init__(self, module: ModuleType):
        self._module = module

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname == self._module.__name__ else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """It has been executed."""


def _check_process() -> None:
    """Raise EngineError in a process whose parent has the library's thread."""
    if _is_lost:
        raise EngineError(
            "this process was forked from one that had already used the e-graph engine, whose thread does not survive a"
            " fork: start processes by 'spawn' or 'forkserver', such as multiprocessing.get_context('spawn').Pool() or"
            " DataLoader(..., multiprocessing_context='spawn'), or fork before eqsat is used for the first time"
        )


def _after_fork() -> None:
    global _is_lost
    _is_lost = _loaded is not None or _LIBRARY in sys.modules
    _never_free(_kept)
    for engine in _open:
        engine.forget()


def _keep(database: Any) -> None:
    """Keep a database in the place of the one that is kept, if this is the main thread, which alone may free them."""
    global _kept
    if threading.current_thread() is threading.main_thread():
        _kept = database


def _never_free(database: Any) -> None:
    """Keep a database, which takes threads to be freed that a forked process does not have."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(database))


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def _engine_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, EngineError):  # an interrupt may come between two lines
        raise
    except BaseException as error:  # Rust panics are no Exceptions
        raise EngineError(f"the e-graph engine failed on {what[:200]}: {error}") from error
