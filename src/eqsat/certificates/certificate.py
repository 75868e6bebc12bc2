"""Certificates as plain data, which JSON can hold.

A certificate holds the steps that lead from one function to another one. A step says that one term equals another, and
by which rule. Terms are numbered: those of the two functions come first, each different node once, in the order of
:meth:`eqsat.certificates.terms.Terms.add`, then those of the certificate.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from eqsat.errors import CertificateError, FileError
from eqsat.files import replacing

FORMAT = "eqsat certificate"
VERSION = 1

Given: TypeAlias = "Certificate | Mapping[str, Any] | str | os.PathLike[str]"
"""What is taken for a certificate: one, what JSON holds of it, or the path of a file."""

COMMUTE, FOLD, FIELD = "commute", "fold-constants", "field-of-tuple"
"""Steps that are by no rule of a set: operands exchanged, a value computed, the field of a tuple that is there."""


@dataclass(frozen=True)
class Step:
    """That each term of ``left`` equals the one at its place in ``right``.

    Attributes:
        rule: The name of the rule that says so.
        left: What the rule matched; several for a rule of several left sides.
        right: What it says that they equal.
        over: For rules by which arguments are equal, the calls that are.
    """

    rule: str
    left: tuple[int, ...]
    right: tuple[int, ...]
    over: tuple[int, ...] = ()


@dataclass
class Certificate:
    """That two functions compute the same.

    Attributes:
        before, after: Digests of the functions.
        opset: The ONNX opset to which the first model was raised before; None for that of the model.
        rules: Version of each rule that a step names.
        soundness: What all steps together keep of the values: ``exact``, ``rounding`` or ``finite``.
        constants: The constants of the certificate: dtype, shape, and the bytes as hexadecimal digits.
        terms: The terms of the certificate: a kind and what it says, the numbers of the children last.
        steps: The steps, each of which holds by its rule and those before it.
        uncovered: What no step shows, in words; a certificate that covers all has none.
    """

    before: str
    after: str
    opset: int | None
    rules: dict[str, str]
    soundness: str
    constants: list[dict[str, Any]] = field(default_factory=list)
    terms: list[list[Any]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    uncovered: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"Certificate({len(self.steps)} steps by {len(self.rules)} rules, which keep: {self.soundness})"

    def as_data(self) -> dict[str, Any]:
        """The certificate as JSON holds it."""
        data: dict[str, Any] = {"format": FORMAT, "version": VERSION, **asdict(self)}
        data["steps"] = [
            [step.rule, list(step.left), list(step.right), *([list(step.over)] if step.over else [])]
            for step in self.steps
        ]
        return data

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file.

        Raises:
            FileError: The file cannot be written.
        """
        head, lists = self.as_data(), ("constants", "terms", "steps", "uncovered")
        parts = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items() if key not in lists]
        for key in lists:
            lines = ",\n  ".join(map(json.dumps, head[key]))
            parts.append(f'"{key}": [\n  {lines}\n ]' if lines else f'"{key}": []')
        try:
            with replacing(path) as temporary:
                Path(temporary).write_text("{\n " + ",\n ".join(parts) + "\n}\n", encoding="utf-8")
        except OSError as error:
            raise FileError(f"cannot write {os.fspath(path)}: {error.strerror or error}") from None


def read(given: Given) -> Certificate:
    """A certificate that is given in one of several forms.

    Raises:
        CertificateError: It cannot be read, or is no certificate.
    """
    if isinstance(given, Certificate):
        given = given.as_data()
    where = "the certificate"
    if not isinstance(given, (Mapping, str, os.PathLike)):
        raise CertificateError(f"a certificate is a Certificate, its data or the path of its file, not {given!r}")
    if not isinstance(given, Mapping):
        where = os.fspath(given)
        try:
            given = json.loads(Path(given).read_bytes())
        except OSError as error:
            raise CertificateError(f"cannot read {where}: {error.strerror or error}") from None
        except (ValueError, RecursionError) as error:
            raise CertificateError(f"{where} is no certificate: {error}") from None
    if not isinstance(given, Mapping) or given.get("format") != FORMAT:
        raise CertificateError(f"{where} is no certificate of eqsat: eqsat optimize writes one with --certificate")
    if given.get("version") != VERSION:
        raise CertificateError(f"{where} is of version {given.get('version')!r}; this eqsat reads version {VERSION}")
    return _certificate(given, where)


_FIELDS: dict[str, type | tuple[type, ...]] = {
    "before": str,
    "after": str,
    "opset": (int, type(None)),
    "rules": dict,
    "soundness": str,
    "constants": list,
    "terms": list,
    "steps": list,
    "uncovered": list,
}


def _certificate(data: Mapping[str, Any], where: str) -> Certificate:
    for name, kind in _FIELDS.items():
        if name not in data or not isinstance(data[name], kind) or isinstance(data[name], bool):
            raise CertificateError(f"{where} is no certificate: {name!r} is missing or of the wrong kind")
    unknown = sorted(set(data) - {*_FIELDS, "format", "version"})
    if unknown:
        raise CertificateError(f"{where} says more than a certificate does: {', '.join(unknown)}")
    steps = [_step(entry, number) for number, entry in enumerate(data["steps"], 1)]
    return Certificate(**{name: data[name] for name in _FIELDS if name != "steps"}, steps=steps)


def _step(entry: Any, number: int) -> Step:
    if not isinstance(entry, list) or not 3 <= len(entry) <= 4 or not isinstance(entry[0], str):
        raise CertificateError(f"step {number} is none: it is a rule and lists of terms")
    if not all(map(is_numbers, entry[1:])):
        raise CertificateError(f"step {number}, {entry[0]}: its terms are no numbers")
    return Step(entry[0], *[tuple(part) for part in entry[1:]])


def is_numbers(value: Any) -> bool:
    """Whether something is a list of numbers that terms can have."""
    return isinstance(value, Sequence) and all(type(each) is int and each >= 0 for each in value)
