"""Targets: what a program is compiled for, as its kind and options, under the names TVM's users know.

eqsat compiles nothing; the checks and partition functions of external compilers ask the current target what they may
offload::

    with Target({"kind": "tensorrt", "use_fp16": True}):
        module = partition(module)
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from eqsat.errors import ArgumentError

Option: TypeAlias = "type | tuple[type, Any]"
"""The type of an option's values, with its default if it has one; ``list`` stands for a list of integers."""


@dataclass(frozen=True)
class TargetKind:
    """A kind of targets.

    Args:
        name: Its name.
        options: Name of an option -> the type of its values, or that and the default.
        keys: What else targets of the kind are called, such as ``("cuda", "gpu")``.
    """

    name: str
    options: Mapping[str, Option] = field(default_factory=dict)
    keys: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


_KINDS: dict[str, TargetKind] = {}

_COMMON: dict[str, Option] = {"keys": str, "device": str, "libs": str, "model": str, "tag": str}
"""Options of every kind."""

_CPU: dict[str, Option] = {"mcpu": str, "mtriple": str, "mattr": str, "mabi": str, "mfloat-abi": str, "num-cores": int}

_GPU: dict[str, Option] = {
    "arch": str,
    "max_function_args": int,
    "max_num_threads": int,
    "max_threads_per_block": int,
    "max_shared_memory_per_block": int,
    "registers_per_block": int,
    "thread_warp_size": int,
}


def register_target_kind(name: str, options: Mapping[str, Option] | None = None, keys: tuple[str, ...] = ()) -> None:
    """Make a kind of targets known; one of that name that is known is replaced."""
    _KINDS[name] = TargetKind(name, dict(options or {}), keys)


for _name in ("llvm", "c", "hexagon", "webgpu", "ext_dev", "hybrid", "test"):
    register_target_kind(_name, _CPU, ("cpu",))
for _name in ("cuda", "rocm", "vulkan", "nvptx"):
    register_target_kind(_name, _CPU | _GPU, (_name, "gpu"))
register_target_kind("opencl", _CPU | _GPU | {"max_function_args": (int, 128)}, ("opencl", "gpu"))
register_target_kind("metal", _CPU | _GPU | {"max_function_args": (int, 31)}, ("metal", "gpu"))
for _name in ("cmsis-nn", "cublas", "cudnn", "ethos-n", "ethos-u"):
    register_target_kind(_name, _CPU)
register_target_kind(
    "cutlass",
    {
        "sm": (int, 80),
        "use_3xtf32": (bool, True),
        "split_k_slices": (list, (1,)),
        "profile_all_alignments": (bool, False),
        "find_first_valid": (bool, False),
        "use_multiprocessing": (bool, False),
        "threads": (int, -1),
        "use_fast_math": (bool, False),
        "tmp_dir": (str, "./tmp"),
    },
    ("cuda", "gpu"),
)
register_target_kind(
    "tensorrt",
    {
        "tensorrt_version": (list, ()),
        "use_implicit_batch": (bool, True),
        "remove_no_mac_subgraphs": (bool, False),
        "max_workspace_size": (int, 1 << 30),
        "use_fp16": (bool, False),
        "use_uint8": (bool, False),
    },
    ("cuda", "gpu"),
)


class Target:
    """A target, which is current inside ``with target:``.

    Args:
        target: The kind and options, as text (``"cuda -arch=sm_80"``) or as a mapping (``{"kind": "cuda", …}``), or
            another target.
        host: The target of the code that starts the kernels, if it is given.

    Attributes:
        kind: The kind; its name is ``kind.name``.
        attrs: The options, with the kind's defaults for those that are not given.
        keys: What the target is called beside its kind.
        host: The host target, or None.

    Raises:
        ArgumentError: The kind or an option is not known, or a value is of the wrong type.
    """

    def __init__(self, target: str | Mapping[str, Any] | Target, host: str | Mapping[str, Any] | Target | None = None):
        self.kind: TargetKind
        self.host: Target | None
        if isinstance(target, Target):
            name, given = target.kind.name, dict(target.attrs)
            host = target.host if host is None else host
        elif isinstance(target, str):
            name, given = _parse(target)
        elif isinstance(target, Mapping):
            given = dict(target)
            name = str(given.pop("kind", ""))
            host = given.pop("host", host)
        else:
            raise ArgumentError(f"a target is given as text, as a mapping or as a Target, not as {target!r}")
        if name not in _KINDS:
            raise ArgumentError(f"there is no kind of targets {name!r}; known are {Target.list_kinds()}")
        self.kind = _KINDS[name]
        self.attrs: Mapping[str, Any] = _checked(self.kind, given)
        self.keys = tuple(str(self.attrs.get("keys", "")).split(",")) if "keys" in self.attrs else self.kind.keys
        self.host = None if host is None else Target(host)

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """Return the innermost target that is entered, None if there is none.

        Raises:
            ArgumentError: There is none, and ``allow_none`` is false.
        """
        entered = _ENTERED.get()
        if not entered and not allow_none:
            raise ArgumentError("no target is current: enter one by 'with Target(…):'")
        return entered[-1] if entered else None

    @staticmethod
    def list_kinds() -> list[str]:
        """Return the names of all kinds, sorted."""
        return sorted(_KINDS)

    @property
    def max_function_args(self) -> int:
        """How many arguments a function of the target may have, results included; 0: any number."""
        return int(self.attrs.get("max_function_args", 0))

    def __enter__(self) -> Target:
        _ENTERED.set((*_ENTERED.get(), self))
        return self

    def __exit__(self, *exception: object) -> None:
        _ENTERED.set(_ENTERED.get()[:-1])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and str(self) == str(other) and self.host == other.host

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return " ".join([self.kind.name, *(f"-{name}={_text(value)}" for name, value in sorted(self.attrs.items()))])

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"


_ENTERED: ContextVar[tuple[Target, ...]] = ContextVar("targets", default=())


def cuda(model: str = "unknown", arch: str | None = None) -> Target:
    """Return a target for GPUs of NVIDIA."""
    return Target({"kind": "cuda", "model": model, **({} if arch is None else {"arch": arch})})


def _parse(text: str) -> tuple[str, dict[str, Any]]:
    """Return the kind and the options of a target that is written as text."""
    name, *words = shlex.split(text) or [""]
    given = {}
    for word in words:
        if not word.startswith("-"):
            raise ArgumentError(f"target {text!r}: {word!r} is no option; options are written -name=value")
        option, equals, value = word.lstrip("-").partition("=")
        given[option] = value if equals else "1"
    return name, given


def _checked(kind: TargetKind, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of a kind, overridden by what is given."""
    known = {**_COMMON, **kind.options}
    attrs = {name: option[1] for name, option in known.items() if isinstance(option, tuple)}
    for name, value in given.items():
        if name not in known:
            raise ArgumentError(f"targets of kind {kind.name!r} have no option {name!r}; they have {sorted(known)}")
        option = known[name]
        wanted = option[0] if isinstance(option, tuple) else option
        try:
            attrs[name] = _READ[wanted](value)
        except (TypeError, ValueError, KeyError):
            raise ArgumentError(
                f"option {name!r} of targets of kind {kind.name!r} takes {_WORDS[wanted]}, not {value!r}"
            ) from None
    return attrs


_TRUTHS = {"1": True, "true": True, "True": True, "0": False, "false": False, "False": False}

_READ: dict[type, Callable[[Any], Any]] = {
    bool: lambda value: _TRUTHS[value] if isinstance(value, str) else bool(int(value)),
    int: int,
    list: lambda value: tuple(map(int, value.split(",") if isinstance(value, str) else value)),
    str: lambda value: value if isinstance(value, str) else ",".join(value),
}
_WORDS: dict[type, str] = {bool: "true or false", int: "an integer", list: "a list of integers", str: "text"}


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(int(value)) if isinstance(value, bool) else str(value)
