"""Creating the terms of a certificate from its JSON data.

Correctness does not depend on this: whatever terms are created, the checker checks that each step is an instance of its
rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.certificates.certificate import Certificate, is_numbers
from eqsat.certificates.literals import NotPlain, attribute_of
from eqsat.certificates.terms import Terms
from eqsat.errors import CertificateError
from eqsat.nd import BFLOAT16
from eqsat.relay.expr import Constant, Op
from eqsat.relay.op.op import make_attrs

_MOST_ELEMENTS = 1 << 24
"""Maximum number of elements of a constant in a certificate."""


class Decoder:
    """Creates the terms of a certificate when they are first used.

    Args:
        terms: The object that stores them.
        base: The number of terms of the two models, which come first.
        certificate: The certificate.
    """

    def __init__(self, terms: Terms, base: int, certificate: Certificate):
        self.terms = terms
        self.base = base
        self.certificate = certificate
        self._made: dict[int, int] = {}

    def term(self, number: int) -> int:
        """Return the term with a number; it and its children are created when they are first used."""
        stack = [number]
        while stack:
            one = stack[-1]
            if one < self.base or one in self._made:
                stack.pop()
                continue
            entry = self._entry(one)
            below = [] if entry[0] == "constant" else entry[-1]
            missing = [child for child in below if child >= self.base and child not in self._made]
            stack += missing
            if not missing:
                self._made[one] = self._make(
                    one, entry, [child if child < self.base else self._made[child] for child in below]
                )
        return number if number < self.base else self._made[number]

    def _entry(self, number: int) -> list[Any]:
        index = number - self.base
        if index >= len(self.certificate.terms):
            raise CertificateError(f"there is no term {number}")
        entry = self.certificate.terms[index]
        if not isinstance(entry, list) or len(entry) < 2:
            raise CertificateError(f"term {number} is malformed")
        if entry[0] != "constant" and not (is_numbers(entry[-1]) and all(child < number for child in entry[-1])):
            raise CertificateError(f"the children of term {number} are not earlier terms")
        return entry

    def _make(self, number: int, entry: Sequence[Any], children: Sequence[int]) -> int:
        kind, told = entry[0], entry[1:-1]
        if kind == "tuple" and not told:
            return self.terms.tuple_of(children)
        if kind == "project" and len(told) == 1 and type(told[0]) is int and len(children) == 1 and told[0] >= 0:
            return self.terms.field_of(children[0], told[0])
        if kind == "constant" and len(entry) == 2:
            return self.terms.constant(self._constant(entry[1]))
        if kind == "call" and len(told) == 2 and isinstance(told[0], str):
            return self.terms.call(*self._called(*told), children)
        raise CertificateError(f"{list(entry)} is no term")

    def _called(self, name: str, attrs: Any) -> tuple[Op, Any]:
        """Return an operator and attributes, given directly or by a term of the models."""
        if type(attrs) is int:
            head = self.terms.heads[attrs] if 0 <= attrs < self.base else None
            if head is None or head.op is None or head.op.name != name:
                raise CertificateError(f"term {attrs} of the models is not a call of {name}")
            return head.op, head.value
        op = Op.find(name)
        if op is None or not isinstance(attrs, (dict, type(None))):
            raise CertificateError(f"there is no operator {name!r}, or its attributes are malformed")
        try:
            return op, make_attrs(op, {key: attribute_of(value) for key, value in (attrs or {}).items()})
        except NotPlain as why:
            raise CertificateError(f"attributes of {name}: {why}") from None

    def _constant(self, index: Any) -> Constant:
        told = (
            self.certificate.constants[index]
            if type(index) is int and 0 <= index < len(self.certificate.constants)
            else None
        )
        if not isinstance(told, dict) or sorted(told) != ["bytes", "dtype", "shape"]:
            raise CertificateError(f"there is no constant {index!r}")
        try:
            shape = tuple(told["shape"])
            if not is_numbers(shape) or np.prod(shape, dtype=object) > _MOST_ELEMENTS:
                raise ValueError("its shape is none")
            array = np.frombuffer(bytes.fromhex(told["bytes"]), dtype=_dtype(told["dtype"])).reshape(shape)
        except (TypeError, ValueError, AttributeError) as why:
            raise CertificateError(f"constant {index} cannot be read: {why}") from None
        return Constant(array)


def _dtype(name: Any) -> Any:
    if name == BFLOAT16.name:
        return BFLOAT16
    found = np.dtype(name)
    if found.kind not in "biuf" or found.name != name:
        raise ValueError(f"{name!r} is not an element type")
    return found
