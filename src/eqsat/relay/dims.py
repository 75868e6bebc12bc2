"""Arithmetic of dimensions: of ints, and of names, whose sums and products are names too.

``2*seq + 1`` is the name of what is computed from ``seq`` in that way, however it is computed. Of an unnamed dimension
nothing is known, and what is computed from it is unnamed, except where the result is that very dimension.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import prod

from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, Terms

_MOST_TERMS = 8
"""Terms above which a sum has no name: it would be longer than it is of use."""

_TRUNCATED = "trunc"


def add_dims(*dims: Dim) -> Dim:
    """The sum."""
    if all(isinstance(dim, int) for dim in dims):
        return sum(dim for dim in dims if isinstance(dim, int))
    left = [dim for dim in dims if dim != 0]
    return left[0] if len(left) == 1 else _total([(dim, 1) for dim in left])


def subtract_dims(left: Dim, right: Dim) -> Dim:
    """The difference."""
    if isinstance(left, int) and isinstance(right, int):
        return left - right
    return left if right == 0 else _total([(left, 1), (right, -1)])


def multiply_dims(*dims: Dim) -> Dim:
    """The product; anything times zero is zero."""
    product: Dim = 1
    for dim in dims:
        product = _product(product, dim)
    return 0 if 0 in dims else product


def floor_divide_dims(dim: Dim, by: int) -> Dim:
    """The quotient by a positive number, rounded down."""
    if isinstance(dim, int) or by == 1:
        return dim if isinstance(dim, AnyDim) else dim // by
    terms = _terms(dim)
    if terms is None:
        return AnyDim()
    whole = {names: count // by for names, count in terms.items() if names == () or count % by == 0}
    rest = {names: count - whole.get(names, 0) * by for names, count in terms.items()}
    left = _named(rest)
    if isinstance(left, int):  # less than a whole one
        return _named(whole)
    divided = left.name if left.terms is None else f"({left.name})"
    return add_dims(_named(whole), AnyDim(f"({divided}//{by})"))


def truncated(dim: Dim, by: int) -> Dim:
    """The quotient by a positive number, rounded towards zero, of what is above ``-by``: it is not negative."""
    if isinstance(dim, int):
        return max(dim, 0) // by
    return dim if dim.name is None else AnyDim(f"{_TRUNCATED}({dim.name}, {by})")


def quotient(over: Sequence[Dim], under: Sequence[Dim]) -> Dim | None:
    """The product of dimensions over that of others, where it is a dimension for sure: None if it is known to be none.

    What is not known of it is unnamed. The divisors are taken not to be 0.
    """
    numerator, denominator = list(over), []
    for dim in under:
        if dim in numerator and (isinstance(dim, int) or dim.name is not None):
            numerator.remove(dim)
        else:
            denominator.append(dim)
    top, bottom = multiply_dims(*numerator), multiply_dims(*denominator)
    if bottom == 1:
        return top
    if bottom == 0:
        return AnyDim()
    if isinstance(top, int) and isinstance(bottom, int):
        return top // bottom if bottom and top % bottom == 0 else None
    dividend, divisor = _terms(top), _terms(bottom)
    if dividend is None or divisor is None or len(divisor) != 1:
        return AnyDim()
    ((names, count),) = divisor.items()
    found: Terms = {}
    for product, times in dividend.items():
        left = _without(product, names)
        if left is None or times % count:
            return AnyDim()
        found[left] = times // count
    return _named(found)


def size_by(dim: Dim, sizes: Mapping[str, int]) -> int | None:
    """The number that a dimension is where names have these sizes; None where it depends on another."""
    if isinstance(dim, int):
        return dim
    terms = _terms(dim)
    if terms is None:
        return None
    total = 0
    for names, count in terms.items():
        for name in names:
            size = sizes.get(name) if name in sizes else _computed(name, sizes)
            if size is None:
                return None
            count *= size
        total += count
    return total


_INNERMOST = re.compile(rf"(min|{_TRUNCATED}|)\(([^()]*)\)")
_FLAT = re.compile(r" \+ | - ")
_MOST_PARTS = 1000
"""Parentheses in a name that is computed."""


def _computed(name: str, sizes: Mapping[str, int]) -> int | None:
    """What a name says that is made of others: quotients, smaller ones and truncated ones, one in another."""
    known = sorted(sizes, key=lambda each: (-len(each), each))
    if not known:
        return None
    text = re.sub(
        rf"(?<![\w.])(?:{'|'.join(map(re.escape, known))})(?![\w.])", lambda found: str(sizes[found[0]]), name
    )
    try:
        for _ in range(_MOST_PARTS):
            inner = _INNERMOST.search(text)
            if inner is None:
                return _flat(text)
            text = f"{text[: inner.start()]}{_call(*inner.groups())}{text[inner.end() :]}"
    except (ValueError, ArithmeticError):  # another name is in it
        pass
    return None


def _call(function: str, text: str) -> int:
    parts = [_flat(part) for part in text.split(", ")]
    if function == "min":
        return min(parts)
    if function == _TRUNCATED:
        return truncated(*parts)  # type: ignore[return-value]
    (whole,) = parts
    return whole


def _flat(text: str) -> int:
    """A sum of products or a quotient, of numbers."""
    if "//" in text:
        over, under = map(_flat, text.split("//"))
        return over // under
    signs = [1, *[-1 if sign == " - " else 1 for sign in _FLAT.findall(text)]]
    return sum(sign * prod(map(int, each.split("*"))) for sign, each in zip(signs, _FLAT.split(text), strict=True))


def is_natural(dim: Dim) -> bool:
    """Whether a number computed from sizes is surely not negative."""
    terms = _terms(dim)
    if terms is None or any(count < 0 for count in terms.values()):
        return False
    # (n - 3)//2 is a name too
    return all("-" not in name or name.startswith(_TRUNCATED) for names in terms for name in names)


def difference(left: Dim, right: Dim) -> int | None:
    """By how much one dimension is larger than another, None if it is not known."""
    found = subtract_dims(left, right)
    return found if isinstance(found, int) else None


def least_dim(left: Dim, right: Dim) -> Dim:
    """The smaller one of two sizes."""
    more = difference(left, right)
    if more is not None:
        return left if more <= 0 else right
    if AnyDim() in (left, right):
        return AnyDim()
    return AnyDim(f"min({', '.join(sorted(map(_name, (left, right))))})")


def is_least_of(dim: Dim, other: Dim) -> bool:
    """Whether a dimension is the smaller one of ``other`` and another."""
    if not isinstance(dim, AnyDim) or dim.name is None:
        return False
    return dim.name.startswith("min(") and _name(other) in dim.name[4:-1].split(", ")


def _name(dim: Dim) -> str:
    return str(dim) if isinstance(dim, int) else str(dim.name)


def map_dim(function: Callable[[int], int], dim: Dim) -> Dim:
    """``function`` of a known dimension, unknown of an unknown one."""
    return function(dim) if isinstance(dim, int) else AnyDim()


def _product(left: Dim, right: Dim) -> Dim:
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    if left == 1 or right == 1:
        return right if left == 1 else left
    first, second = _terms(left), _terms(right)
    if first is None or second is None or len(first) * len(second) > _MOST_TERMS:
        return AnyDim()
    found: Terms = {}
    for a, times in first.items():
        for b, more in second.items():
            names = tuple(sorted((*a, *b)))
            found[names] = found.get(names, 0) + times * more
    return _named(found)


def _total(weighted: Sequence[tuple[Dim, int]]) -> Dim:
    found: Terms = {}
    for dim, weight in weighted:
        terms = _terms(dim)
        if terms is None:
            return AnyDim()
        for names, count in terms.items():
            found[names] = found.get(names, 0) + weight * count
    return _named(found)


def _terms(dim: Dim) -> Mapping[tuple[str, ...], int] | None:
    """How often each product of names is in a dimension; the number by itself is the product of none."""
    if isinstance(dim, int):
        return {(): dim}
    if dim.terms is not None:
        return dim.terms
    return None if dim.name is None else {(dim.name,): 1}


def _named(terms: Mapping[tuple[str, ...], int]) -> Dim:
    """The dimension of these terms."""
    kept = {names: count for names, count in sorted(terms.items(), reverse=True) if count}
    if not kept or list(kept) == [()]:
        return kept.get((), 0)
    if len(kept) > _MOST_TERMS:
        return AnyDim()
    first, *_ = kept
    if len(kept) == 1 and len(first) == 1 and kept[first] == 1:
        return AnyDim(first[0])
    text = " + ".join(_text(names, count) for names, count in kept.items())
    return AnyDim(text.replace("+ -", "- "), kept)


def _text(names: tuple[str, ...], count: int) -> str:
    if not names:
        return str(count)
    product = "*".join(names)
    return product if count == 1 else f"-{product}" if count == -1 else f"{count}*{product}"


def _without(names: tuple[str, ...], taken: tuple[str, ...]) -> tuple[str, ...] | None:
    """A product of names over another, None if it is no product of names."""
    left, needed = Counter(names), Counter(taken)
    return tuple((left - needed).elements()) if needed <= left else None
