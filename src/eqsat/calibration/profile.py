"""Profiles: what kernels take on one machine, in one version of a runtime, as a file."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from eqsat.calibration.fitted import Fitted, Sample
from eqsat.calibration.measuring import Measurable, Setup, Spent, Timing, measure
from eqsat.calibration.medley import measure_change
from eqsat.errors import ArgumentError, FileError, ModelError, ProfileError
from eqsat.files import cache_folder, replacing

FORMAT = 6
"""Changes when profiles of before cannot be read, or would not be measured like that any more."""

NOISE = 0.25
"""Share of its time by which the middle half of a kernel's runs may differ before a timing counts as noisy."""


@dataclass(frozen=True)
class Machine:
    """What timings hold for.

    Attributes:
        processor: Its name, and how many of them the runtime sees.
        runtime: The name of the runtime.
        version: Its version.
    """

    processor: str
    runtime: str
    version: str

    @staticmethod
    def here(runtime: str = Setup.runtime) -> Machine:
        """Return this machine with the version of a runtime that is installed.

        Raises:
            ModelError: There is none.
        """
        try:
            engine = import_module(f"eqsat.calibration.engines.in_{runtime}")
        except ImportError as error:
            raise ModelError(
                f"kernels are measured in {runtime}, which cannot be loaded: {error}; pip install {runtime}"
            ) from None
        return Machine(f"{_processor()} x {os.cpu_count()}", runtime, engine.version())

    def __str__(self) -> str:
        return f"{self.runtime} {self.version} on {self.processor}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


@dataclass(frozen=True)
class Entry:
    """What is known of a kernel.

    Attributes:
        family: Its operators.
        flops, bytes: Its floating-point operations, and the bytes that it reads and writes.
        seconds: What it takes; None where it could not be measured.
        spread: By what part of that the middle half of its runs differ.
        skipped: Why it could not be measured.
    """

    family: str
    flops: float
    bytes: float
    seconds: float | None = None
    spread: float = 0.0
    skipped: str = ""

    @property
    def is_noisy(self) -> bool:
        """Whether its runs differ by more than they should."""
        return self.spread > NOISE

    @staticmethod
    def of(kernel: Measurable, timing: Timing | str) -> Entry:
        """Return what is known of a kernel that was timed, or not for a reason."""
        facts = kernel.family, kernel.flops, kernel.bytes
        if isinstance(timing, str):
            return Entry(*facts, skipped=timing)
        return Entry(*facts, timing.seconds, timing.spread)


@dataclass
class Profile:
    """What kernels take.

    Attributes:
        machine, setup: What was measured.
        date: When it was begun.
        reference: Seconds that the reference took when it was begun, by which all others are told; None before.
        change: Seconds that a kernel takes more where others run before it, see :mod:`eqsat.calibration.medley`; None
            before it was measured.
        entries: What is known of kernels, by their keys.
        spent: What was measured by this process took; it is not written.
    """

    machine: Machine
    setup: Setup
    date: str = field(default_factory=lambda: datetime.now(UTC).date().isoformat())
    reference: float | None = None
    change: float | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    spent: Spent = field(default_factory=Spent, compare=False)

    @property
    def noisy(self) -> list[str]:
        """The keys of kernels whose runs differ by more than they should."""
        return [key for key, each in self.entries.items() if each.is_noisy]

    @property
    def skipped(self) -> dict[str, str]:
        """Why kernels could not be measured, by key."""
        return {key: each.skipped for key, each in self.entries.items() if each.skipped}

    def fitted(self) -> Fitted:
        """Return estimates for kernels that the profile does not have."""
        samples: dict[str, list[Sample]] = {}
        for each in self.entries.values():
            if each.seconds is not None:
                samples.setdefault(each.family, []).append(Sample(each.flops, each.bytes, each.seconds))
        return Fitted(samples)

    def tell_by(self, reference: float | None) -> None:
        """Tell all times by a reference that took so many seconds, None for the one that there is."""
        if reference and self.reference and reference != self.reference:
            times = reference / self.reference
            for key, each in self.entries.items():
                if each.seconds is not None:
                    self.entries[key] = replace(each, seconds=times * each.seconds)
            self.change = None if self.change is None else times * self.change
        self.reference = reference or self.reference

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the profile.

        Raises:
            FileError: It cannot be written.
        """
        record = {
            "format": FORMAT,
            **asdict(self.machine),
            **asdict(self.setup),
            "date": self.date,
            "reference": self.reference,
            "change": self.change,
            "kernels": {key: asdict(self.entries[key]) for key in sorted(self.entries)},
        }
        try:
            with replacing(path) as part:
                part.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise FileError(f"cannot write {os.fspath(path)}: {error.strerror or error}") from None

    @staticmethod
    def load(path: str | os.PathLike[str], foreign: bool = False) -> Profile:
        """Read a profile.

        Args:
            path: The file.
            foreign: Whether it may be of another machine, or another version of the runtime.

        Raises:
            ProfileError: It cannot be read, is damaged, or is of another machine or version.
        """
        name = os.fspath(path)
        try:
            record = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise ProfileError(f"cannot read profile {name}: {error.strerror or error}") from None
        except ValueError as error:
            raise ProfileError(f"{name} is no profile: {error}; write it anew with eqsat calibrate") from None
        try:
            profile = _parsed(record)
        except (ArgumentError, AttributeError, KeyError, TypeError, ValueError) as error:
            told = f"{type(error).__name__}: {error}"
            raise ProfileError(f"{name} is damaged ({told}); write it anew with eqsat calibrate") from None
        here = None if foreign else Machine.here(profile.setup.runtime)
        if here is not None and profile.machine != here:
            raise ProfileError(
                f"{name} is of {profile.machine}, and here is {here}: measure anew with eqsat calibrate, or say that "
                "it is meant (--foreign)"
            )
        return profile


def _parsed(record: Mapping[str, Any]) -> Profile:
    if record["format"] != FORMAT:
        raise ValueError(f"format {record['format']!r} is not {FORMAT}")
    machine = Machine(*[_text(record[name]) for name in ("processor", "runtime", "version")])
    setup = Setup(int(record["threads"]), _text(record["level"]), machine.runtime)
    entries = {key: _entry(**each) for key, each in record["kernels"].items()}
    reference, change = [None if record[name] is None else _number(record[name]) for name in ("reference", "change")]
    return Profile(machine, setup, _text(record["date"]), reference, change, entries)


def _entry(family: Any, flops: Any, bytes: Any, seconds: Any, spread: Any, skipped: Any) -> Entry:
    taken = None if seconds is None else _number(seconds)
    if (taken is None) == (_text(skipped) == ""):
        raise ValueError("a kernel has either its seconds, or a reason why it has none")
    return Entry(_text(family), _number(flops), _number(bytes), taken, _number(spread), skipped)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise ValueError(f"{value!r} is no number of at least 0")
    return float(value)


# ---- the user's cache


def cache_path(machine: Machine, setup: Setup) -> Path:
    """Return the file of what is measured on demand with a version of the runtime, run in one way."""
    processor = hashlib.sha256(machine.processor.encode()).hexdigest()[:8]
    name = f"{machine.runtime}-{machine.version}-{processor}-{setup.threads}-{setup.level}-{FORMAT}.json"
    return cache_folder() / name


def cached(setup: Setup) -> Profile:
    """Return what was measured on demand here before.

    Raises:
        ModelError: The runtime is missing.
        ProfileError: The file is damaged.
    """
    machine = Machine.here(setup.runtime)
    path = cache_path(machine, setup)
    return Profile.load(path) if path.exists() else Profile(machine, setup)


def remember(profile: Profile) -> None:
    """Write a profile to the user's cache, beside what others have measured since.

    Raises:
        FileError: It cannot be written.
    """
    path = cache_path(profile.machine, profile.setup)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"cannot make {path.parent}: {error.strerror or error}; EQSAT_CACHE may name another folder"
        ) from None
    if path.exists():
        known = Profile.load(path)
        profile.tell_by(known.reference)
        profile.entries = {**known.entries, **profile.entries}
        profile.change = profile.change if known.change is None else known.change
    profile.save(path)


def prune() -> list[Path]:
    """Remove what was measured with other versions, on other machines, or cannot be read; return the files."""
    folder = cache_folder()
    removed = []
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        try:
            Profile.load(path)
        except ProfileError:
            path.unlink(missing_ok=True)
            removed.append(path)
    return removed


def calibrate(
    profile: Profile, kernels: Iterable[Measurable], seconds: float | None = None, level: str | None = None
) -> int:
    """Time the kernels that a profile does not have, and add them to it; return how many were added.

    Args:
        profile: The profile.
        kernels: What to time.
        seconds: After how many seconds no more kernels are begun; None to time all.
        level: What the optimizer does to them; None for what it does to the models of the profile.

    Raises:
        ModelError: The runtime is missing or does not start.
    """
    setup = profile.setup if level is None else replace(profile.setup, level=level)
    new = {kernel.key: kernel for kernel in kernels if kernel.key not in profile.entries}
    if new and profile.change is None:
        profile.change, profile.reference = measure_change(profile.setup, profile.reference, profile.spent)
    timings, profile.reference = measure(new.values(), setup, profile.reference, spent=profile.spent, seconds=seconds)
    profile.entries |= {key: Entry.of(new[key], timing) for key, timing in timings.items()}
    return len(timings)
