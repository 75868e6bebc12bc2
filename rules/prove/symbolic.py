"""Arrays of sizes that are not known, which NumPy's functions, and so the operators' kernels, take in place of arrays.

An array is its shape and a function that gives the term of the element at given indices. What a kernel computes is
again such an array: element by element what it is of the elements of the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product as combinations
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from eqsat.rules.prove.arrays import REDUCTIONS, UFUNCS, simplest
from eqsat.rules.prove.sizes import ONE, ZERO, Poly, Scope, Size, product
from eqsat.rules.prove.terms import BOOL, REAL, NoTermError, Term, Terms, UnsuitedError, sort_of

Read = Callable[[tuple[Poly, ...]], Term]
MOST = 64
"""Elements along axes of known sizes of a result, which are taken one by one."""
MOST_FOLDED = 400
"""The same of a fold."""


class SymbolicArray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array, element by element.

    Args:
        terms: makes the terms.
        scope: what is known of sizes and indices.
        shape: ints and sizes.
        dtype: that of the numbers which the terms stand for.
        read: gives the element at indices.
    """

    def __init__(self, terms: Terms, scope: Scope, shape: Sequence[Any], dtype: Any, read: Read):
        self.terms, self.scope, self.dtype = terms, scope, np.dtype(dtype)
        self.shape = tuple(shape)
        self._read = read
        self._known: dict[tuple[Poly, ...], Term] = {}

    def at(self, indices: tuple[Poly, ...]) -> Term:
        """The element at indices."""
        if indices not in self._known:
            self._known[indices] = self._read(indices)
        return self._known[indices]

    def made(self, shape: Sequence[Any], read: Read, dtype: Any = None) -> SymbolicArray:
        """Another array."""
        return SymbolicArray(self.terms, self.scope, shape, self.dtype if dtype is None else dtype, read)

    def mapped(self, function: Callable[..., Term]) -> SymbolicArray:
        """A function of each element."""
        return mapped(function, self.dtype, self)

    # ---- what kernels ask of arrays

    def real_function(self, name: str) -> SymbolicArray:
        """A function of real numbers that is told by its name."""
        if sort_of(self.dtype) != REAL:
            raise UnsuitedError(f"{name} of integers")
        return self.mapped(lambda a: self.terms.function(name, a))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Any:
        value = 1
        for dim in self.shape:
            value = value * dim
        return value

    @property
    def T(self) -> SymbolicArray:
        return _transposed(self)

    def __len__(self) -> int:
        raise NoTermError("the length of an array is asked")

    def __array__(self, *args: Any, **keywords: Any) -> Any:
        raise NoTermError("a kernel needs the numbers themselves")

    def __bool__(self) -> bool:
        raise NoTermError("a kernel needs the numbers themselves")

    __int__ = __float__ = __index__ = __bool__

    def __iter__(self) -> Any:
        raise NoTermError("a kernel goes over the elements")

    def astype(self, dtype: Any, *args: Any, **keywords: Any) -> SymbolicArray:
        wanted = np.dtype(dtype)
        if wanted == self.dtype:
            return self
        return self.made(self.shape, lambda indices: self.terms.convert(self.at(indices), wanted), wanted)

    def copy(self, *args: Any, **keywords: Any) -> SymbolicArray:
        return self

    def reshape(self, *shape: Any, **keywords: Any) -> SymbolicArray:
        return _reshaped(self, shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape)

    def transpose(self, *axes: Any) -> SymbolicArray:
        return _transposed(self, axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes or None)

    def swapaxes(self, one: int, other: int) -> SymbolicArray:
        return _swapped(self, one, other)

    def squeeze(self, axis: Any = None) -> SymbolicArray:
        return _squeezed(self, axis)

    def sum(self, axis: Any = None, **keywords: Any) -> SymbolicArray:
        return _reduced(np.add, self, axis, **keywords)

    def max(self, axis: Any = None, **keywords: Any) -> SymbolicArray:
        return _reduced(np.maximum, self, axis, **keywords)

    def __getitem__(self, key: Any) -> SymbolicArray:
        return _part(self, key if isinstance(key, tuple) else (key,))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        if keywords.pop("out", None) is not None:
            raise NoTermError("a kernel writes into an array")
        if ufunc is np.matmul and method == "__call__":
            return _matmul(*inputs)
        if ufunc not in UFUNCS:
            raise NoTermError(f"no term is known for {ufunc.__name__}")
        if method == "reduce":
            return _reduced(ufunc, *inputs, **keywords)
        if method != "__call__":
            raise NoTermError(f"no term is known for {ufunc.__name__}.{method}")
        dtype = keywords.pop("dtype", None)
        try:
            types = ufunc.resolve_dtypes((*map(_resolving, inputs), None))
        except TypeError as error:
            raise UnsuitedError(str(error)) from None
        given = [self.lifted(each, want if dtype is None else dtype) for each, want in zip(inputs, types, strict=False)]
        function = UFUNCS[ufunc]
        result = types[-1] if dtype is None else dtype
        return mapped(lambda *args: function(self.terms, *args), result, *given)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func in CREATING:
            return CREATING[func](self, *args, **kwargs)
        own = FUNCTIONS.get(func)
        if own is None:
            raise NoTermError(f"no term is known for {func.__name__}")
        return own(*args, **kwargs)

    def lifted(self, value: Any, dtype: Any) -> SymbolicArray:
        """Numbers, or an array, as one of a dtype."""
        return value.astype(dtype) if isinstance(value, SymbolicArray) else lifted(self.terms, self.scope, value, dtype)


def lifted(terms: Terms, scope: Scope, value: Any, dtype: Any = None) -> SymbolicArray:
    """Numbers as an array of constants."""
    if isinstance(value, Size):
        wanted = np.dtype(np.int64 if dtype is None else dtype)
        return SymbolicArray(terms, scope, (), wanted, lambda indices: index_term(terms, value.poly, sort_of(wanted)))
    array = np.asarray(value) if dtype is None else np.asarray(value).astype(dtype)
    if array.dtype == object:
        raise NoTermError("a kernel makes an array of objects")
    sort = sort_of(array.dtype)

    def read(indices: tuple[Poly, ...]) -> Term:
        at = [index.constant for index in indices]
        if None in at:
            if not np.all(array == array.flat[0]):
                raise NoTermError("an element of a constant is asked for at an index that is not known")
            element = array.flat[0]
        elif not all(0 <= place < dim for place, dim in zip(at, array.shape, strict=True)):  # type: ignore[operator]
            return terms.make("var", (), "outside", sort)  # where no condition asks for it
        else:
            element = array[tuple(at)]
        return terms.const(simplest(element) if sort == REAL else element, sort)

    return SymbolicArray(terms, scope, array.shape, array.dtype, read)


def index_term(terms: Terms, poly: Poly, sort: str = REAL) -> Term:
    """An index or size as a number."""
    if poly.constant is not None:
        return terms.const(poly.constant, sort)
    return terms.make("index", (), poly, sort)


def below(terms: Terms, scope: Scope, one: Poly, other: Poly) -> Term:
    """Whether an index is below another."""
    known = scope.is_below(one, other)
    if known is not None:
        return terms.const(known, BOOL)
    return terms.less(index_term(terms, one), index_term(terms, other))


def same(one: Any, other: Any) -> bool:
    """Whether two sizes are equal for certain."""
    return Poly.of(one) == Poly.of(other)


def broadcast(*shapes: Sequence[Any]) -> tuple[Any, ...]:
    """The shape of arrays of these shapes together."""
    rank = max(map(len, shapes))
    result = []
    for place in range(-rank, 0):
        dims = [shape[place] for shape in shapes if len(shape) >= -place]
        wide = [dim for dim in dims if not same(dim, 1)]
        if any(not same(dim, wide[0]) for dim in wide[1:]):
            raise NoTermError("sizes that may differ are taken for equal")
        result.append(wide[0] if wide else 1)
    return tuple(result)


def narrowed(indices: tuple[Poly, ...], shape: Sequence[Any]) -> tuple[Poly, ...]:
    """The indices of an element of an array that is broadcast."""
    kept = indices[len(indices) - len(shape) :]
    return tuple(ZERO if same(dim, 1) else index for index, dim in zip(kept, shape, strict=True))


def mapped(function: Callable[..., Term], dtype: Any, *arrays: SymbolicArray) -> SymbolicArray:
    """A function of the elements of arrays that broadcast."""
    return arrays[0].made(
        broadcast(*[each.shape for each in arrays]),
        lambda indices: function(*[each.at(narrowed(indices, each.shape)) for each in arrays]),
        dtype,
    )


def _resolving(value: Any) -> Any:
    if isinstance(value, (bool, np.bool_)):
        return np.dtype(bool)
    if isinstance(value, (int, float)) and not isinstance(value, np.generic):
        return float if isinstance(value, float) else int
    return value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype


def _first(*values: Any) -> SymbolicArray:
    return next(each for each in values if isinstance(each, SymbolicArray))


# ---- folds


def folded(array: SymbolicArray, ufunc: Any, sizes: Sequence[Any], body: Callable[..., Term], dtype: Any) -> Term:
    """The fold of ``body`` of an index below each size; along axes of known sizes one by one."""
    terms, function = array.terms, UFUNCS[ufunc]
    if ufunc not in _FOLDS:
        raise NoTermError(f"a fold by {ufunc.__name__}")
    known = [place for place, size in enumerate(sizes) if Poly.of(size).constant is not None]
    ranges = [range(int(sizes[place])) for place in known]
    if np.prod([len(each) for each in ranges], dtype=object) > MOST_FOLDED:
        raise UnsuitedError("many elements are folded one by one")
    indices: dict[int, Poly] = {
        place: array.scope.index(size) for place, size in enumerate(sizes) if place not in known
    }
    total: Term | None = None
    for chosen in combinations(*ranges):
        at = indices | {place: Poly.of(value) for place, value in zip(known, chosen, strict=True)}
        term = body(*[at[place] for place in range(len(sizes))])
        total = term if total is None else function(terms, total, term)
    if total is None:
        raise NoTermError("nothing is folded")
    for index in indices.values():
        (name,) = index.names()
        total = terms.make(f"fold:{_FOLDS[ufunc]}", (total,), (name, array.scope.above[name]), sort_of(dtype))
    return total


_FOLDS = {
    np.add: "add",
    np.multiply: "mul",
    np.maximum: "max",
    np.minimum: "min",
    np.logical_and: "and",
    np.logical_or: "or",
}


def _reduced(
    ufunc: Any, data: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False,
    initial: Any = None, where: Any = True, **_: Any,
) -> SymbolicArray:  # fmt: skip
    keepdims = keepdims is not np._NoValue and bool(keepdims)
    if where is not True and where is not np._NoValue:
        raise NoTermError("a kernel reduces part of an array")
    wanted = np.dtype(dtype) if dtype is not None else data.dtype
    if ufunc in (np.logical_and, np.logical_or):
        wanted = np.dtype(bool)
    elif dtype is None and ufunc in (np.add, np.multiply) and wanted.kind in "biu" and wanted.itemsize < 8:
        wanted = np.dtype(np.uint64 if wanted.kind == "u" else np.int64)
    wide: SymbolicArray = data.astype(wanted)
    rank: int = data.ndim
    axes = range(rank) if axis is None else [each % rank for each in (axis if isinstance(axis, tuple) else (axis,))]
    kept = [each for each in range(rank) if each not in axes]
    order = [each for each in range(rank) if each in axes]

    def read(indices: tuple[Poly, ...]) -> Term:
        outer = [indices[each] for each in kept] if keepdims else indices
        placed = dict(zip(kept, outer, strict=True))

        def body(*inner: Poly) -> Term:
            at = placed | dict(zip(order, inner, strict=True))
            return wide.at(tuple(at[each] for each in range(rank)))

        total: Term = folded(wide, ufunc, [data.shape[each] for each in order], body, wanted)
        if initial is not None and initial is not np._NoValue:
            start = data.terms.const(initial, sort_of(wanted))
            return UFUNCS[ufunc](data.terms, start, total)
        return total

    shape = [1 if each in order else dim for each, dim in enumerate(data.shape)]
    return wide.made(shape if keepdims else [data.shape[each] for each in kept], read)


def _matmul(one: Any, other: Any) -> SymbolicArray:
    first = _first(one, other)
    dtype = np.result_type(one.dtype, other.dtype)
    a, b = first.lifted(one, dtype), first.lifted(other, dtype)
    if a.ndim == 1:
        return _matmul(a.reshape(1, a.shape[0]), b)[..., 0, :] if b.ndim > 1 else _dot(a, b)
    if b.ndim == 1:
        return _matmul(a, b.reshape(b.shape[0], 1))[..., 0]
    if not same(a.shape[-1], b.shape[-2]):
        raise NoTermError("sizes that may differ are taken for equal")
    batch = broadcast(a.shape[:-2], b.shape[:-2])

    def read(indices: tuple[Poly, ...]) -> Term:
        outer, row, column = indices[:-2], indices[-2], indices[-1]

        def body(inner: Poly) -> Term:
            left = a.at((*narrowed(outer, a.shape[:-2]), row, inner))
            right = b.at((*narrowed(outer, b.shape[:-2]), inner, column))
            return a.terms.mul(left, right)

        return folded(a, np.add, [a.shape[-1]], body, dtype)

    return a.made((*batch, a.shape[-2], b.shape[-1]), read)


def _dot(a: SymbolicArray, b: SymbolicArray) -> SymbolicArray:
    return _reduced(np.add, a * b, 0)


# ---- moves


def _axes(axis: Any, rank: int) -> list[int]:
    return [each % rank for each in (axis if isinstance(axis, (tuple, list)) else (axis,))]


def _transposed(data: SymbolicArray, axes: Any = None) -> SymbolicArray:
    order = list(range(data.ndim))[::-1] if axes is None else [int(each) % data.ndim for each in axes]
    back = [order.index(each) for each in range(data.ndim)]
    return data.made(
        [data.shape[each] for each in order], lambda indices: data.at(tuple(indices[each] for each in back))
    )


def _swapped(data: SymbolicArray, one: int, other: int) -> SymbolicArray:
    order = list(range(data.ndim))
    order[one], order[other] = order[other], order[one]
    return _transposed(data, order)


def _moved(data: SymbolicArray, source: int, target: int) -> SymbolicArray:
    order = [each for each in range(data.ndim) if each != source % data.ndim]
    order.insert(target % data.ndim, source % data.ndim)
    return _transposed(data, order)


def _squeezed(data: SymbolicArray, axis: Any = None) -> SymbolicArray:
    axes = [each for each, dim in enumerate(data.shape) if same(dim, 1)] if axis is None else _axes(axis, data.ndim)
    return _reshaped(data, [dim for each, dim in enumerate(data.shape) if each not in axes])


def _expanded(data: SymbolicArray, axis: Any) -> SymbolicArray:
    axes = _axes(axis, data.ndim + (len(axis) if isinstance(axis, (tuple, list)) else 1))
    dims = iter(data.shape)
    return _reshaped(data, [1 if each in axes else next(dims) for each in range(data.ndim + len(axes))])


def _reshaped(data: SymbolicArray, shape: Any, *_: Any, **keywords: Any) -> SymbolicArray:
    dims = list(shape) if isinstance(shape, (tuple, list)) else [shape]
    unknown = [place for place, dim in enumerate(dims) if not isinstance(dim, Size) and int(dim) == -1]
    for place in unknown:
        rest = 1
        for dim in [*dims[:place], *dims[place + 1 :]]:
            rest = rest * dim
        dims[place] = data.size // rest
    if product(dims) != product(data.shape):
        raise NoTermError("a view has another number of elements")
    groups = _groups(dims, data.shape)
    scope = data.scope

    def read(indices: tuple[Poly, ...]) -> Term:
        found: list[Poly] = []
        for new, old in groups:
            flat = ZERO
            for place in new:
                flat = flat * Poly.of(dims[place]) + indices[place]
            inner = []
            for place in old[:0:-1]:
                flat, rest = scope.divide(flat, Poly.of(data.shape[place]))
                inner.append(rest)
            found += [*([flat] if old else []), *inner[::-1]]
        return data.at(tuple(found))

    return data.made(dims, read)


def _groups(new: Sequence[Any], old: Sequence[Any]) -> list[tuple[list[int], list[int]]]:
    """Runs of axes of two shapes with as many elements, the shorter the better."""
    groups: list[tuple[list[int], list[int]]] = []
    left, right = list(range(len(new))), list(range(len(old)))
    while left or right:
        found = None
        for total in range(1, len(left) + len(right) + 1):
            for count in range(min(total, len(left)) + 1):
                other = total - count
                if other > len(right):
                    continue
                if product(new[place] for place in left[:count]) == product(old[place] for place in right[:other]):
                    found = count, other
                    break
            if found:
                break
        count, other = found or (len(left), len(right))
        groups.append((left[:count], right[:other]))
        left, right = left[count:], right[other:]
    return groups


def _part(data: SymbolicArray, key: tuple[Any, ...]) -> SymbolicArray:
    given = [each for each in key if each is not None and each is not Ellipsis]
    if not all(isinstance(each, (slice, int, np.integer)) for each in given):
        raise NoTermError("a kernel picks elements by an array")
    if Ellipsis not in key:
        key = (*key, Ellipsis)
    at = key.index(Ellipsis)
    key = (*key[:at], *[slice(None)] * (data.ndim - len(given)), *key[at + 1 :])
    shape: list[Any] = []
    picks: list[Callable[[tuple[Poly, ...]], Poly]] = []
    axis = 0
    for each in key:
        if each is None:
            shape.append(1)
            continue
        dim, place = data.shape[axis], len(shape)
        axis += 1
        if isinstance(each, slice):
            first, count, step = _bounds(each, dim)
            shape.append(count)
            picks.append(lambda indices, place=place, first=first, step=step: first + indices[place] * step)  # type: ignore[misc]
        else:
            number = each if each >= 0 else dim + each
            picks.append(lambda indices, number=number: Poly.of(number))  # type: ignore[misc]
    return data.made(shape, lambda indices: data.at(tuple(pick(indices) for pick in picks)))


def _windows(data: SymbolicArray, window_shape: Sequence[Any], axis: Sequence[int], **_: Any) -> SymbolicArray:
    rank, axes = data.ndim, _axes(axis, data.ndim)
    shape = list(data.shape)
    for place, size in zip(axes, window_shape, strict=True):
        shape[place] = shape[place] - size + 1

    def read(indices: tuple[Poly, ...]) -> Term:
        at = list(indices[:rank])
        for place, tap in zip(axes, indices[rank:], strict=True):
            at[place] = at[place] + tap
        return data.at(tuple(at))

    return data.made([*shape, *window_shape], read)


def _bounds(part: slice, dim: Any) -> tuple[Poly, Any, Poly]:
    """The first index, the number and the distance of indices of a slice."""
    step = 1 if part.step is None else int(part.step)
    low, high = (0, dim) if step > 0 else (-1, dim - 1)
    first = _end(part.start, dim, low, high, low if step > 0 else high)
    last = _end(part.stop, dim, low, high, high if step > 0 else low)
    count = (last - first + step - 1) // step if step > 0 else (first - last - step - 1) // -step
    return Poly.of(first), count if count > 0 else 0, Poly.of(step)


def _end(given: Any, dim: Any, low: Any, high: Any, default: Any) -> Any:
    if given is None:
        return default
    if given < 0:
        given = given + dim
    return high if given >= high else low if given <= low else given


def _concatenated(arrays: Sequence[Any], axis: int = 0, **keywords: Any) -> SymbolicArray:
    first = _first(*arrays)
    dtype = np.result_type(*[each.dtype for each in arrays])
    parts = [first.lifted(each, dtype) for each in arrays]
    axis = axis % parts[0].ndim
    for each in parts[1:]:
        if any(not same(*pair) for place, pair in enumerate(zip(each.shape, parts[0].shape, strict=True))
               if place != axis):  # fmt: skip
            raise NoTermError("sizes that may differ are taken for equal")
    starts: list[Any] = [0]
    for each in parts:
        starts.append(starts[-1] + each.shape[axis])

    def read(indices: tuple[Poly, ...]) -> Term:
        index = indices[axis]

        def element(place: int) -> Term:
            return parts[place].at((*indices[:axis], index - Poly.of(starts[place]), *indices[axis + 1 :]))

        chosen: list[tuple[Term, int]] = []
        for place in range(len(parts) - 1):
            condition = below(first.terms, first.scope, index, Poly.of(starts[place + 1]))
            if condition.head != "const" or condition.data:
                chosen.append((condition, place))
            if condition.head == "const" and condition.data:
                break
        else:
            chosen.append((first.terms.const(True, BOOL), len(parts) - 1))
        result = element(chosen[-1][1])
        for condition, place in chosen[-2::-1]:
            result = first.terms.choose(condition, element(place), result)
        return result

    return first.made((*parts[0].shape[:axis], starts[-1], *parts[0].shape[axis + 1 :]), read, dtype)


def _stacked(arrays: Sequence[Any], axis: int = 0, **keywords: Any) -> SymbolicArray:
    first = _first(*arrays)
    axis = axis % (first.ndim + 1)
    return _concatenated([_expanded(first.lifted(each, first.dtype), axis) for each in arrays], axis)


def _split(data: SymbolicArray, where: Any, axis: int = 0) -> list[SymbolicArray]:
    axis, dim = axis % data.ndim, data.shape[axis]
    if isinstance(where, int):
        size = dim // where
        ends = [size * place for place in range(1, where)]
    else:
        ends = list(where)
    parts = []
    for begin, end in zip([0, *ends], [*ends, dim], strict=True):
        key = (*[slice(None)] * axis, slice(begin, end))
        parts.append(_part(data, key))
    return parts


def _broadcast_to(data: Any, shape: Any, **_: Any) -> SymbolicArray:
    if any(not same(*pair) for pair in zip(broadcast(data.shape, shape), shape, strict=True)):
        raise NoTermError("sizes that may differ are taken for equal")
    return data.made(shape, lambda indices: data.at(narrowed(indices, data.shape)))  # type: ignore[no-any-return]


def _flipped(data: SymbolicArray, axis: Any = None) -> SymbolicArray:
    axes = range(data.ndim) if axis is None else _axes(axis, data.ndim)

    def read(indices: tuple[Poly, ...]) -> Term:
        return data.at(tuple(
            Poly.of(dim) - ONE - index if place in axes else index
            for place, (index, dim) in enumerate(zip(indices, data.shape, strict=True))
        ))  # fmt: skip

    return data.made(data.shape, read)


def _repeated(data: SymbolicArray, repeats: Any, axis: Any = None) -> SymbolicArray:
    if axis is None or not isinstance(repeats, (int, np.integer)):
        raise NoTermError("elements are repeated in another way")
    axis = axis % data.ndim

    def read(indices: tuple[Poly, ...]) -> Term:
        index, _ = data.scope.divide(indices[axis], Poly.of(repeats))
        return data.at((*indices[:axis], index, *indices[axis + 1 :]))

    return data.made((*data.shape[:axis], data.shape[axis] * repeats, *data.shape[axis + 1 :]), read)


def _tiled(data: SymbolicArray, reps: Any) -> SymbolicArray:
    counts = list(reps) if isinstance(reps, (tuple, list)) else [reps]
    rank = max(len(counts), data.ndim)
    counts = [1] * (rank - len(counts)) + counts
    whole = _reshaped(data, [1] * (rank - data.ndim) + list(data.shape))

    def read(indices: tuple[Poly, ...]) -> Term:
        return whole.at(tuple(
            index if same(count, 1) else data.scope.divide(index, Poly.of(dim))[1]
            for index, dim, count in zip(indices, whole.shape, counts, strict=True)
        ))  # fmt: skip

    return whole.made([dim * count for dim, count in zip(whole.shape, counts, strict=True)], read)


def _padded(data: SymbolicArray, widths: Any, mode: str = "constant", constant_values: Any = 0, **_: Any) -> Any:
    if mode != "constant":
        raise UnsuitedError("an edge is padded by itself")
    value = data.lifted(constant_values, data.dtype).at(())
    sides = [tuple(each) for each in widths]
    terms, scope = data.terms, data.scope

    def read(indices: tuple[Poly, ...]) -> Term:
        inside, at = terms.const(True, BOOL), []
        for index, dim, (low, _) in zip(indices, data.shape, sides, strict=True):
            place = index - Poly.of(low)
            inside = terms.logic("and", inside, terms.not_(below(terms, scope, place, ZERO)))
            inside = terms.logic("and", inside, below(terms, scope, place, Poly.of(dim)))
            at.append(place)
        return terms.choose(inside, data.at(tuple(at)), value)

    return data.made([dim + low + high for dim, (low, high) in zip(data.shape, sides, strict=True)], read)


def _taken(data: Any, indices: Any, axis: Any = None, **_: Any) -> SymbolicArray:
    if isinstance(indices, SymbolicArray) or axis is None or not isinstance(data, SymbolicArray):
        raise NoTermError("elements are taken by indices that are not known")
    places, axis = np.asarray(indices), axis % data.ndim
    numbers = [[Poly.of(each if each >= 0 else data.shape[axis] + int(each)) for each in places.flat]]

    def read(at: tuple[Poly, ...]) -> Term:
        inner = [each.constant for each in at[axis : axis + places.ndim]]
        if any(each is None for each in inner):
            raise NoTermError("elements are taken by indices that are not known")
        flat = int(np.ravel_multi_index(tuple(inner), places.shape)) if inner else 0  # type: ignore[arg-type]
        return data.at((*at[:axis], numbers[0][flat], *at[axis + places.ndim :]))

    return data.made((*data.shape[:axis], *places.shape, *data.shape[axis + 1 :]), read)


# ---- others


def _where(condition: Any, x: Any, y: Any) -> SymbolicArray:
    first = _first(condition, x, y)
    kinds = [_resolving(each) for each in (x, y)]
    strong = [each for each in kinds if isinstance(each, np.dtype)]
    if len(strong) == 1 and strong[0].kind == "f":
        kinds = strong
    dtype = np.result_type(*[np.zeros((), kind) if isinstance(kind, np.dtype) else kind(0) for kind in kinds])
    return mapped(
        first.terms.choose, dtype, first.lifted(condition, bool), first.lifted(x, dtype), first.lifted(y, dtype)
    )


def _clipped(data: Any, low: Any = None, high: Any = None, **_: Any) -> Any:
    result = data if low is None else np.maximum(data, low)
    return result if high is None else np.minimum(result, high)


def _full_like(data: SymbolicArray, value: Any, dtype: Any = None, **_: Any) -> SymbolicArray:
    number = data.lifted(value, dtype or data.dtype)
    return number.made(data.shape, lambda indices: number.at(()))


def _as_array(like: SymbolicArray, value: Any, dtype: Any = None, **_: Any) -> SymbolicArray:
    if isinstance(value, SymbolicArray) and dtype is None:
        return value
    return like.lifted(value, dtype if dtype is not None else np.int64 if isinstance(value, int) else value.dtype)


def _ones(like: SymbolicArray, shape: Any, dtype: Any = float, **_: Any) -> SymbolicArray:
    one = like.lifted(1, dtype)
    return one.made(shape, lambda indices: one.at(()))


def _lower(like: SymbolicArray, rows: Any, M: Any = None, k: int = 0, dtype: Any = float) -> SymbolicArray:
    terms, sort = like.terms, sort_of(dtype)

    def read(indices: tuple[Poly, ...]) -> Term:
        row, column = indices
        above = below(terms, like.scope, row + Poly.of(k), column)
        return terms.choose(above, terms.const(0, sort), terms.const(1, sort))

    return like.made((rows, rows if M is None else M), read, dtype)


def _einsum(equation: str, *arrays: Any, **_: Any) -> SymbolicArray:
    first = _first(*arrays)
    dtype = np.result_type(*[each.dtype for each in arrays])
    given = [first.lifted(each, dtype) for each in arrays]
    inputs, arrow, result = equation.replace(" ", "").partition("->")
    if not arrow or "." in equation:
        raise NoTermError("a sum of products in another way")
    letters = inputs.split(",")
    dims: dict[str, Any] = {}
    for names, each in zip(letters, given, strict=True):
        for name, dim in zip(names, each.shape, strict=True):
            dims[name] = broadcast((dims.get(name, 1),), (dim,))[0]
    inner = [name for name in dims if name not in result]

    def read(indices: tuple[Poly, ...]) -> Term:
        outer = dict(zip(result, indices, strict=True))

        def body(*others: Poly) -> Term:
            at = outer | dict(zip(inner, others, strict=True))
            total: Term | None = None
            for names, each in zip(letters, given, strict=True):
                element = each.at(narrowed(tuple(at[name] for name in names), each.shape))
                total = element if total is None else first.terms.mul(total, element)
            assert total is not None
            return total

        return folded(first, np.add, [dims[name] for name in inner], body, dtype)

    return first.made([dims[name] for name in result], read, dtype)


def _reducing(ufunc: Any) -> Callable[..., Any]:
    def reduce(data: Any, axis: Any = None, dtype: Any = None, out: Any = None, **keywords: Any) -> Any:
        return _reduced(ufunc, data, axis, dtype, **keywords)

    return reduce


def _itself(data: Any, *args: Any, dtype: Any = None, **keywords: Any) -> Any:
    return data if dtype is None else data.astype(dtype)


CREATING: dict[Any, Callable[..., Any]] = {np.asarray: _as_array, np.ones: _ones, np.tri: _lower}
"""Functions that make an array like another."""

FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: _where,
    np.clip: _clipped,
    **{function: _reducing(ufunc) for function, ufunc in REDUCTIONS.items()},
    np.copy: _itself,
    np.ascontiguousarray: _itself,
    np.zeros_like: lambda data, *args, **keywords: _full_like(data, 0, **keywords),
    np.ones_like: lambda data, *args, **keywords: _full_like(data, 1, **keywords),
    np.full_like: _full_like,
    np.einsum: _einsum,
    np.transpose: _transposed,
    np.swapaxes: _swapped,
    np.moveaxis: _moved,
    np.reshape: _reshaped,
    np.squeeze: _squeezed,
    np.expand_dims: _expanded,
    np.concatenate: _concatenated,
    np.stack: _stacked,
    np.split: _split,
    np.broadcast_to: _broadcast_to,
    np.flip: _flipped,
    np.repeat: _repeated,
    np.tile: _tiled,
    np.pad: _padded,
    np.take: _taken,
    sliding_window_view: _windows,
    np.ndim: lambda data: data.ndim,
    np.shape: lambda data: data.shape,
}
