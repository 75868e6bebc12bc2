"""Arrays of terms that NumPy's functions, and so the operators' kernels, take in place of arrays of numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from eqsat.rules.prove.terms import BOOL, REAL, NoTermError, Term, Terms, UnsuitedError, sort_of


class TermArray(np.ndarray[Any, Any]):
    """An array of terms. Its ``dtype`` is that of the numbers which the terms stand for."""

    numbers: np.dtype[Any] | None

    def __array_finalize__(self, source: Any) -> None:
        self.terms: Any = getattr(source, "terms", None)
        self.numbers = getattr(source, "numbers", None)

    @property
    def dtype(self) -> Any:
        """The dtype of the numbers."""
        return np.dtype(object) if self.numbers is None else self.numbers

    @property
    def objects(self) -> Any:
        """The terms as a plain array of objects."""
        return self.view(np.ndarray)

    def astype(self, dtype: Any, *args: Any, **keywords: Any) -> Any:
        """The numbers in another dtype."""
        wanted = np.dtype(dtype)
        if wanted == self.dtype or wanted.kind == "O":
            return self if keywords.get("copy") is False else self.copy()
        return mapped(self.terms, lambda a: self.terms.convert(a, wanted), wanted, self)

    def mapped(self, function: Callable[..., Term]) -> TermArray:
        """A function of each element."""
        return mapped(self.terms, function, self.dtype, self)

    def real_function(self, name: str) -> TermArray:
        """A function of real numbers that is told by its name."""
        if sort_of(self.dtype) != REAL:
            raise UnsuitedError(f"{name} of integers")
        return self.mapped(lambda a: self.terms.function(name, a))

    def tolist(self) -> Any:
        """The numbers, where all are constants."""
        return concrete(self).tolist()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        if any(out is not None for out in keywords.pop("out", None) or ()):
            raise NoTermError("a kernel writes into an array")
        terms = next(each.terms for each in inputs if isinstance(each, TermArray) and each.terms is not None)
        if method == "__call__" and ufunc is np.matmul:
            a, b = inputs
            dtype = common(a, b)
            product = np.matmul(lifted(terms, a, dtype).objects, lifted(terms, b, dtype).objects)
            return wrapped(terms, np.asarray(product, object), dtype)
        if ufunc not in UFUNCS:
            raise NoTermError(f"no term is known for {ufunc.__name__}")
        if method == "reduce":
            return _reduced(terms, ufunc, inputs[0], **keywords)
        if method != "__call__":
            raise NoTermError(f"no term is known for {ufunc.__name__}.{method}")
        dtype = keywords.pop("dtype", None)
        types = ufunc.resolve_dtypes((*map(_resolving, inputs), None) if ufunc.nout == 1 else ())
        given = [
            lifted(terms, each, want if dtype is None else dtype) for each, want in zip(inputs, types, strict=False)
        ]
        function = UFUNCS[ufunc]
        return mapped(terms, lambda *args: function(terms, *args), types[-1] if dtype is None else dtype, *given)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func is np.asarray:
            return _as_array(self, *args, **kwargs)
        if func in (np.ones, np.tri):
            return func(*args, **kwargs)
        if func in _WRITING or kwargs.get("out") is not None:
            raise NoTermError("a kernel writes into an array")
        own = _FUNCTIONS.get(func)
        if own is not None:
            return own(*args, **kwargs)
        found = [each for each in _flat((args, tuple(kwargs.values()))) if isinstance(each, TermArray)]
        terms = next(each.terms for each in found if each.terms is not None)
        dtype = common(*[each for each in _flat(args) if isinstance(each, np.ndarray) and _counts(each)])
        lifting = _Lifting(terms, dtype)
        result = func._implementation(*lifting.all(args), **{key: lifting.all(value) for key, value in kwargs.items()})
        return _rewrapped(terms, result, dtype)


def _counts(array: Any) -> bool:
    return isinstance(array, TermArray) or array.dtype.kind == "f"


class _Lifting:
    """Turns arrays of terms, and arrays of floats beside them, into plain arrays of objects."""

    def __init__(self, terms: Terms, dtype: Any):
        self.terms, self.dtype = terms, dtype

    def all(self, value: Any) -> Any:
        if isinstance(value, TermArray):
            return value.objects
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.all, value))
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            return lifted(self.terms, value, self.dtype).objects
        return value


def _flat(value: Any) -> list[Any]:
    return [each for item in value for each in _flat(item)] if isinstance(value, (list, tuple)) else [value]


def _rewrapped(terms: Terms, result: Any, dtype: Any) -> Any:
    if isinstance(result, (list, tuple)):
        return type(result)(_rewrapped(terms, each, dtype) for each in result)
    if isinstance(result, Term):
        return wrapped(terms, np.array(result, object), dtype)
    if isinstance(result, np.ndarray) and result.dtype == object:
        return wrapped(terms, result, dtype)
    return result


def wrapped(terms: Terms, objects: Any, dtype: Any) -> TermArray:
    """An array of objects, all of them terms, as one of terms that stand for numbers of ``dtype``."""
    array = np.asarray(objects, object).view(TermArray)
    array.terms, array.numbers = terms, np.dtype(dtype)
    sort = sort_of(dtype)
    for place, each in enumerate(array.objects.flat):
        if not isinstance(each, Term) or each.sort != sort:
            array.objects.flat[place] = terms.lift(each, sort) if not isinstance(each, Term) else each
    return array


def lifted(terms: Terms, value: Any, dtype: Any) -> TermArray:
    """Numbers or terms as terms that stand for numbers of ``dtype``."""
    if isinstance(value, TermArray) and value.numbers is not None:
        return value.astype(dtype)  # type: ignore[no-any-return]
    array = np.asarray(value)
    if array.dtype == object:
        return wrapped(terms, array, dtype)
    with np.errstate(all="ignore"):
        array = array.astype(dtype)
    sort = sort_of(dtype)
    made = np.empty(array.shape, object)
    for place, each in enumerate(array.flat):
        made.flat[place] = terms.const(simplest(each) if sort == REAL else each, sort)
    return wrapped(terms, made, dtype)


def simplest(number: Any) -> Any:
    """The fraction of least denominator, up to 1000, that rounds to a floating-point number, or the number itself."""
    value = float(number)
    if not math.isfinite(value) or value == 0 or value.is_integer():
        return value
    kind = np.asarray(number).dtype.type
    if abs(value) > 1000:
        return Fraction(value)
    for most in (10, 100, 1000):
        fraction = Fraction(value).limit_denominator(most)
        if fraction and kind(float(fraction)) == number:
            return fraction
    return Fraction(value)


def concrete(array: Any) -> Any:
    """An array of constants as numbers.

    Raises:
        NoTermError: Some term is none.
    """
    if not isinstance(array, TermArray):
        return array
    made = np.empty(array.shape, array.dtype)
    for place, each in enumerate(array.objects.flat):
        made.flat[place] = each._number()
    return made


def common(*arrays: Any) -> Any:
    """The dtype that NumPy gives to numbers of these arrays together."""
    known = [each for each in arrays if not isinstance(each, TermArray) or each.numbers is not None]
    types = [each.dtype for each in known if isinstance(each, np.ndarray) and each.dtype != object]
    return np.result_type(*types) if types else np.dtype(np.float32)


def _resolving(value: Any) -> Any:
    if isinstance(value, (bool, np.bool_)):
        return np.dtype(bool)
    if isinstance(value, (int, float)) and not isinstance(value, np.generic):
        return type(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return np.dtype(np.float32) if value.dtype == object else value.dtype
    return np.asarray(value).dtype


def mapped(terms: Terms, function: Callable[..., Term], dtype: Any, *arrays: Any) -> TermArray:
    """``function`` of the elements of arrays that broadcast."""
    given = np.broadcast_arrays(*[each.view(np.ndarray) for each in arrays])
    made = np.empty(given[0].shape, object)
    for place, each in enumerate(zip(*[array.flat for array in given], strict=True)):
        made.flat[place] = function(*each)
    array = made.view(TermArray)
    array.terms, array.numbers = terms, np.dtype(dtype)
    return array


def _reduced(
    terms: Terms, ufunc: Any, data: Any, axis: Any = 0, dtype: Any = None, keepdims: bool = False, initial: Any = None,
    where: Any = True, **_: Any,
) -> TermArray:  # fmt: skip
    if where is not True:
        raise NoTermError("a kernel reduces part of an array")
    logical = ufunc in (np.logical_and, np.logical_or)
    wanted = np.dtype(dtype) if dtype is not None else np.dtype(bool) if logical else data.dtype
    if dtype is None and ufunc in (np.add, np.multiply) and wanted.kind in "biu" and wanted.itemsize < 8:
        wanted = np.dtype(np.uint64 if wanted.kind == "u" else np.int64)
    objects = lifted(terms, data, wanted).objects
    rank = objects.ndim
    axes = range(rank) if axis is None else [each % rank for each in (axis if isinstance(axis, tuple) else (axis,))]
    kept = [each for each in range(rank) if each not in axes]
    shape = [objects.shape[each] for each in kept]
    rows = objects.transpose([*kept, *axes]).reshape(math.prod(shape), -1 if objects.size else 0)
    function, sort = UFUNCS[ufunc], sort_of(wanted)
    made = np.empty(len(rows), object)
    if initial is None and ufunc in _STARTS and not rows.shape[1]:
        initial = _STARTS[ufunc]
    for place, row in enumerate(rows):
        items = [*([] if initial is None or initial is np._NoValue else [terms.const(initial, sort)]), *row]
        if not items:
            raise NoTermError("nothing is reduced")
        total = items[0]
        for item in items[1:]:
            total = function(terms, total, item)
        made[place] = total
    whole = [1 if each in axes else objects.shape[each] for each in range(rank)] if keepdims else shape
    return wrapped(terms, made.reshape(whole), wanted)


_STARTS = {np.add: 0, np.multiply: 1, np.logical_and: True, np.logical_or: False}


def _power(terms: Terms, a: Term, b: Term) -> Term:
    if a.sort == REAL and b.head == "const" and b.data in (1, 2):
        return a if b.data == 1 else terms.mul(a, a)
    return terms.function("power", a, b, sort=a.sort)


def _divided(terms: Terms, a: Term, b: Term) -> Term:
    return terms.div(a, b) if a.sort == REAL else terms.function("true_divide", a, b)


def _opaque(name: str, sort: str | None = None) -> Callable[..., Term]:
    def make(terms: Terms, *args: Term) -> Term:
        if any(each.head == "const" and isinstance(each.data, float) and math.isinf(each.data) for each in args):
            raise NoTermError(f"{name} of infinity")
        return terms.function(name, *args, sort=sort or args[0].sort)

    return make


def _divided_whole(name: str, by_one: Callable[[Terms, Term], Term]) -> Callable[..., Term]:
    """A quotient rounded or its rest, with what it is of integers divided by 1."""
    of_others = _opaque(name)

    def make(terms: Terms, a: Term, b: Term) -> Term:
        if a.sort not in (REAL, BOOL) and b.head == "const" and b.data == 1:
            return by_one(terms, a)
        return of_others(terms, a, b)

    return make


def _exp(terms: Terms, a: Term) -> Term:
    if a.head == "const" and a.data == -math.inf:
        return terms.const(0.0, REAL)
    return _opaque("exp")(terms, a)


def _absolute(terms: Terms, a: Term) -> Term:
    if a.head == "neg" and a.sort == REAL:
        a = a.args[0]
    if a.head == "const":
        return terms.const(abs(a.data), a.sort)
    return a if a.head == "f:abs" or np.dtype(a.sort if a.sort != REAL else float).kind == "u" else terms.function(
        "abs", a, sort=a.sort
    )  # fmt: skip


def _known_finite(result: bool) -> Callable[..., Term]:
    def make(terms: Terms, a: Term) -> Term:
        if a.sort != REAL:
            return terms.const(result, BOOL)
        if a.head == "const":
            return terms.const(result is not (isinstance(a.data, float) and math.isinf(a.data)), BOOL)
        terms.assumed.add("no input is infinite or NaN")
        return terms.const(result, BOOL)

    return make


def _is_nan(terms: Terms, a: Term) -> Term:
    if a.sort == REAL and a.head != "const":
        terms.assumed.add("no input is infinite or NaN")
    return terms.const(False, BOOL)


def _clip(terms: Terms, a: Term, low: Term, high: Term) -> Term:
    return terms.least(terms.extreme(a, low), high)


def _truth(function: Callable[..., Term]) -> Callable[..., Term]:
    return lambda terms, *args: function(terms, *[terms.convert(each, bool) for each in args])


UFUNCS: dict[Any, Callable[..., Term]] = {
    np.add: Terms.add,
    np.subtract: Terms.sub,
    np.multiply: Terms.mul,
    np.divide: _divided,
    np.negative: Terms.neg,
    np.positive: lambda terms, a: a,
    np.square: lambda terms, a: terms.mul(a, a),
    np.maximum: Terms.extreme,
    np.minimum: Terms.least,
    np.fmax: Terms.extreme,
    np.fmin: Terms.least,
    np.absolute: _absolute,
    np.power: _power,
    np.sqrt: _opaque("sqrt"),
    np.exp: _exp,
    np.log: _opaque("log"),
    np.less: Terms.less,
    np.greater: lambda terms, a, b: terms.less(b, a),
    np.less_equal: lambda terms, a, b: terms.not_(terms.less(b, a)),
    np.greater_equal: lambda terms, a, b: terms.not_(terms.less(a, b)),
    np.equal: Terms.equal,
    np.not_equal: lambda terms, a, b: terms.not_(terms.equal(a, b)),
    np.logical_not: _truth(Terms.not_),
    np.logical_and: _truth(lambda terms, a, b: terms.logic("and", a, b)),
    np.logical_or: _truth(lambda terms, a, b: terms.logic("or", a, b)),
    np.logical_xor: _truth(lambda terms, a, b: terms.logic("xor", a, b)),
    np.isnan: _is_nan,
    np.isinf: _known_finite(False),
    np.isfinite: _known_finite(True),
    **{
        ufunc: _opaque(ufunc.__name__)
        for ufunc in (
            np.arccos, np.arccosh, np.arcsin, np.arcsinh, np.arctan, np.arctanh, np.ceil, np.cos, np.cosh, np.floor,
            np.log2, np.log10, np.log1p, np.expm1, np.rint, np.sign, np.sin, np.sinh, np.tan, np.tanh, np.trunc,
            np.logaddexp, np.left_shift, np.right_shift,
        )
    },
}  # fmt: skip
UFUNCS[np.floor_divide] = _divided_whole("floor_divide", lambda terms, a: a)
for _rest in (np.fmod, np.remainder):
    UFUNCS[_rest] = _divided_whole(_rest.__name__, lambda terms, a: terms.const(0, a.sort))
for _name in ("and", "or", "xor"):
    UFUNCS[getattr(np, f"bitwise_{_name}")] = lambda terms, a, b, _name=_name: (
        terms.logic(_name, a, b) if a.sort == BOOL else terms.make(f"bitwise_{_name}", (a, b), None, a.sort)
    )
UFUNCS[np.invert] = lambda terms, a: terms.not_(a) if a.sort == BOOL else terms.function("invert", a, sort=a.sort)


def _where(condition: Any, x: Any, y: Any) -> Any:
    terms = next(each.terms for each in (condition, x, y) if isinstance(each, TermArray))
    dtype = np.result_type(*[np.zeros((), kind) if isinstance(kind, np.dtype) else kind(0) for kind in _kinds(x, y)])
    given = lifted(terms, condition, bool), lifted(terms, x, dtype), lifted(terms, y, dtype)
    return mapped(terms, terms.choose, dtype, *given)


def _kinds(x: Any, y: Any) -> list[Any]:
    kinds = [_resolving(each) for each in (x, y)]
    strong = [each for each in kinds if isinstance(each, np.dtype)]
    return strong if len(strong) == 1 and np.dtype(strong[0]).kind == "f" else kinds


def _clipped(data: Any, low: Any = None, high: Any = None, **_: Any) -> Any:
    result = data if low is None else np.maximum(data, low)
    return result if high is None else np.minimum(result, high)


def _reducing(ufunc: Any) -> Callable[..., Any]:
    def reduce(data: Any, axis: Any = None, **keywords: Any) -> Any:
        keywords = {key: value for key, value in keywords.items() if value is not np._NoValue and value is not None}
        return _reduced(data.terms, ufunc, data, axis, **keywords)

    return reduce


def _copied(data: Any, *args: Any, **keywords: Any) -> Any:
    return data.copy()


def _like(value: Any) -> Callable[..., Any]:
    def make(data: Any, dtype: Any = None, **_: Any) -> Any:
        return lifted(data.terms, np.full(data.shape, value), dtype or data.dtype)

    return make


def _contiguous(data: Any, dtype: Any = None, **_: Any) -> Any:
    return data.copy() if dtype is None else data.astype(dtype)


def _as_array(like: TermArray, value: Any, dtype: Any = None, **_: Any) -> Any:
    if isinstance(value, TermArray):
        return value if dtype is None else value.astype(dtype)
    if isinstance(value, Term):
        return wrapped(value.terms, np.array(value, object), like.dtype if dtype is None else dtype)
    return np.asarray(value, dtype)


def _einsum(equation: Any, *arrays: Any, **_: Any) -> Any:
    """Products summed over the letters that the result lacks, in the order of their indices."""
    terms = next(each.terms for each in arrays if isinstance(each, TermArray))
    dtype = common(*arrays)
    inputs, arrow, result = equation.replace(" ", "").partition("->")
    if not arrow or "." in equation:
        raise NoTermError("a sum of products in another way")
    inner = [name for name in dict.fromkeys(inputs) if name not in f"{result},"]
    letters = [*result, *inner]
    factors = []
    for names, each in zip(inputs.split(","), arrays, strict=True):
        order = [names.index(name) for name in letters if name in names]
        objects = lifted(terms, each, dtype).objects.transpose(order)
        factors.append(objects[tuple(slice(None) if name in names else None for name in letters)])
    product = functools.reduce(lambda one, other: mapped(terms, terms.mul, dtype, one, other), factors)
    return _reduced(terms, np.add, product, tuple(range(len(result), len(letters))), dtype) if inner else product


REDUCTIONS: dict[Any, Any] = {
    np.sum: np.add,
    np.prod: np.multiply,
    np.max: np.maximum,
    np.min: np.minimum,
    np.amax: np.maximum,
    np.amin: np.minimum,
    np.all: np.logical_and,
    np.any: np.logical_or,
}
"""Functions that reduce arrays, and by what."""

_WRITING = {np.copyto, np.fill_diagonal, np.place, np.put, np.put_along_axis, np.putmask}
"""Functions that write into an argument: it would be a copy of terms that they write into."""

_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: _where,
    np.clip: _clipped,
    **{function: _reducing(ufunc) for function, ufunc in REDUCTIONS.items()},
    np.copy: _copied,
    np.zeros_like: _like(0),
    np.ones_like: _like(1),
    np.einsum: _einsum,
}
