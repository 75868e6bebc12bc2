"""Certificates as plain data, which can be stored as JSON.

A certificate contains the steps that lead from one function to another one. A step states that one term equals another,
and by which rule. Terms are numbered: first the different nodes of the two functions, in the order of
:meth:`eqsat.certificates.terms.Terms.add`, then the terms of the certificate.
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
"""The forms in which certificates are passed: a Certificate, its JSON data, or the path of a file."""

COMMUTE, FOLD, FIELD = "commute", "fold-constants", "field-of-tuple"
"""Steps without a rule: operands are exchanged, a constant is computed, or a field of a known tuple is taken."""


@dataclass(frozen=True)
class Step:
    """The statement that each term of ``left`` equals the term at the same place in ``right``.

    Attributes:
        rule: The name of the rule.
        left: The terms that the rule matched; several for a rule with several left sides.
        right: The terms that the rule equates them with.
        over: For rules that equate arguments of equal calls: these calls.
    """

    rule: str
    left: tuple[int, ...]
    right: tuple[int, ...]
    over: tuple[int, ...] = ()


@dataclass
class Certificate:
    """The proof that two functions compute the same values.

    Attributes:
        before, after: Digests of the functions.
        opset: The ONNX opset to which the first model was converted before; None for the opset of the model.
        rules: Name of each rule that a step uses -> its version.
        soundness: The weakest soundness of a step: ``exact``, ``rounding`` or ``finite``.
        constants: The constants of the certificate: dtype, shape, and the bytes as hexadecimal digits.
        terms: The terms of the certificate: a kind, its data, and the numbers of the children.
        steps: The steps. Each holds by its rule and the steps before it.
        uncovered: Descriptions of the parts that no step proves; empty if the certificate covers everything.
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
        """Return the certificate as data for JSON."""
        data: dict[str, Any] = {"format": FORMAT, "version": VERSION, **asdict(self)}
        data["steps"] = [
            [step.rule, list(step.left), list(step.right), *([list(step.over)] if step.over else [])]
            for step in self.steps
        ]
        return data

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the certificate to a file.

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
    """Return a certificate that is given in one of several forms.

    Raises:
        CertificateError: It cannot be read, or is not a certificate.
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
            raise CertificateError(f"{where} is not a certificate: {error}") from None
    if not isinstance(given, Mapping) or given.get("format") != FORMAT:
        raise CertificateError(f"{where} is not a certificate of eqsat: eqsat optimize writes one with --certificate")
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
        raise CertificateError(f"{where} has unknown fields: {', '.join(unknown)}")
    steps = [_step(entry, number) for number, entry in enumerate(data["steps"], 1)]
    return Certificate(**{name: data[name] for name in _FIELDS if name != "steps"}, steps=steps)


def _step(entry: Any, number: int) -> Step:
    if not isinstance(entry, list) or not 3 <= len(entry) <= 4 or not isinstance(entry[0], str):
        raise CertificateError(f"step {number} is malformed: a step is a rule and lists of terms")
    if not all(map(is_numbers, entry[1:])):
        raise CertificateError(f"step {number}, {entry[0]}: its terms are not numbers")
    return Step(entry[0], *[tuple(part) for part in entry[1:]])


def is_numbers(value: Any) -> bool:
    """Whether something is a list of numbers that terms can have."""
    return isinstance(value, Sequence) and all(type(each) is int and each >= 0 for each in value)
