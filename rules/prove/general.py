"""Rules for all sizes: instances of which the sizes are taken for unknown.

An instance is drawn whose sizes are large primes, so that each size in an attribute tells which product of sizes it is.
The same instance at other primes, and what the rule makes of it there, must be the first with its sizes exchanged: so
is found how the attributes that the rule's Python functions compute depend on sizes, and whether its guards hold.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from itertools import product as combinations
from typing import Any

import numpy as np

from eqsat.egraph.rule import Compute, Like, PythonRule, Rewrite
from eqsat.egraph.variadic import is_variadic, spoken_of
from eqsat.errors import EqsatError
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import (
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    ExprPattern,
    WildcardPattern,
)
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, TupleGetItem, Var
from eqsat.relay.infer import infer_types
from eqsat.relay.relations import complete_attrs
from eqsat.relay.traits import Trait
from eqsat.relay.ty import TensorType, TupleType, Type, is_static
from eqsat.relay.visitor import post_order, rebuild
from eqsat.rules.prove.cases import unequal
from eqsat.rules.prove.drawing import SmallDraw
from eqsat.rules.prove.evaluate import denotation_of
from eqsat.rules.prove.folds import Normal
from eqsat.rules.prove.sizes import Poly, Scope, Size, product
from eqsat.rules.prove.symbolic import MOST, SymbolicArray, lifted
from eqsat.rules.prove.terms import NoTermError, Term, Terms, UnsuitedError, sort_of
from eqsat.rules.verify.apply import right_sides
from eqsat.rules.verify.instances import Instance, draw_instances

PRIMES = (11, 13, 17, 19, 23)
OTHERS = {11: 29, 13: 43, 17: 31, 19: 41, 23: 37}
"""For each prime another one, in another order."""
NAMES = {prime: f"n{place}" for place, prime in enumerate(PRIMES, 1)}
TRIED = 3
"""Choices of other sizes, not primes, at which what Python computes is compared with what was proved."""
FOLLOWED = "what Python computes for the right side depends on sizes as it does at those tried"
LARGEST = 300_000
"""Elements of a constant."""


class GeneralDraw(SmallDraw):
    """Draws tensors of which the sizes are primes, or 1."""

    def __init__(self, rng: random.Random):
        super().__init__(rng)
        self.dims = rng.sample(PRIMES, 3)

    def dim(self) -> int:
        return 1 if self.chance(0.1) else super().dim()

    def array(self, ty: TensorType, special: bool = False) -> Any:
        if np.prod(ty.concrete_shape, dtype=object) > LARGEST:
            raise EqsatError("an array is too large")
        return super().array(ty)


def factored(number: int, primes: Mapping[int, int]) -> tuple[int, list[int]]:
    """A number without its factors among the primes, and these."""
    found = []
    for prime in primes:
        while number and number % prime == 0:
            number //= prime
            found.append(prime)
    return number, found


def exchanged(sizes: Mapping[int, int], number: int) -> int:
    """A size at other sizes: ``sizes`` has one for each prime."""
    rest, primes = factored(number, sizes)
    for prime in primes:
        rest *= sizes[prime]
    return rest


class Exchange:
    """Writes expressions with a function of every size in place of it.

    Args:
        of: the function.
        arrays: for each constant that has been written the new one.
    """

    def __init__(self, of: Callable[[int], Any], rng: random.Random | None = None):
        self.of, self.rng = of, rng
        self.made: dict[Expr, Expr] = {}
        self.arrays: dict[bytes, Constant] = {}

    def all(self, roots: tuple[Expr, ...]) -> tuple[Expr, ...]:
        whole = Tuple(roots)
        types = infer_types(whole)
        for node in post_order(whole):
            if node not in self.made:
                self.made[node] = self._written(node, types)
        return tuple(self.made[root] for root in roots)

    def _written(self, node: Expr, types: Mapping[Expr, Type]) -> Expr:
        if isinstance(node, Var):
            return Var(node.name_hint, self.type(types[node]))
        if isinstance(node, Constant):
            return self._constant(node)
        if isinstance(node, Call) and isinstance(node.op, Op):
            attrs = None if node.attrs is None else self.attrs(node.attrs)
            return Call(node.op, [self.made[arg] for arg in node.args], attrs)
        if isinstance(node, (Op, Tuple, TupleGetItem)):
            return rebuild(node, self.made)
        raise NoTermError(f"there are no terms for {type(node).__name__} nodes")

    def type(self, ty: Type) -> Type:
        if isinstance(ty, TupleType):
            return TupleType([self.type(each) for each in ty.fields])
        if not isinstance(ty, TensorType) or not is_static(ty):
            raise NoTermError("a size is not known")
        return TensorType([self.of(dim) for dim in ty.concrete_shape], ty.dtype)

    def attrs(self, attrs: Attrs) -> Attrs:
        return Attrs({name: self.value(value) for name, value in attrs.items()}, attrs.type_key)

    def value(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self.value, value))
        return self.of(value) if isinstance(value, int) and not isinstance(value, bool) else value

    def _constant(self, node: Constant) -> Constant:
        array = node.data.numpy()
        key = str((array.dtype, array.shape)).encode() + array.tobytes()
        if key not in self.arrays:
            self.arrays[key] = Constant(self._array(array))
        return self.arrays[key]

    def _array(self, array: Any) -> Any:
        shape = [self.of(dim) for dim in array.shape]
        if array.dtype.kind in "iu" and array.ndim <= 1 and shape == list(array.shape):
            return np.array([self.of(int(each)) for each in array.flat], array.dtype).reshape(array.shape)
        if shape == list(array.shape):
            return array
        if array.size and np.all(array == array.flat[0]):
            return np.full(shape, array.flat[0], array.dtype)
        if self.rng is None or array.dtype.kind in "iu":
            raise NoTermError("the rule computes an array of a size that is not known")
        return SmallDraw(self.rng).array(TensorType(shape, array.dtype.name))


def prove_generally(rule: Rewrite | PythonRule, wanted: int, seed: int) -> tuple[int, set[str], str]:
    """Prove a rule for all sizes, at the ranks and attributes of instances.

    Returns:
        How many instances were proved, what is assumed, and why there is no proof, if there is none.
    """
    rng = random.Random(f"general {seed} {rule.name}")
    others = random.Random(f"sizes {seed} {rule.name}")
    proved, assumed, reason = 0, set[str](), ""
    stream = draw_instances(rule, lambda: GeneralDraw(rng), wanted * 100)
    for _ in range(3):
        batch = [each for each in islice(stream, wanted) if each.module is None]
        if not batch:
            break
        sides, moved = right_sides(rule, batch), _moved(rule, batch, OTHERS, rng)
        tried = _tried(rule, batch, others)
        for instance, right, (exchange, other), also in zip(batch, sides, moved, tried, strict=True):
            if isinstance(exchange, str) or not right or not other:
                reason = reason or (exchange if isinstance(exchange, str) else "the rule does not apply at other sizes")
                continue
            try:
                assumed |= _prove_one(instance, exchange, right, other)
                for elsewhere, found in also:
                    if not isinstance(elsewhere, str) and found:
                        _written(elsewhere, right, found)
            except UnsuitedError as error:
                reason = reason or str(error)
                continue
            assumed |= {FOLLOWED} if also else set()
            proved += 1
            if proved >= wanted:
                return proved, assumed, ""
    return proved, assumed, "" if proved else reason or "no instance of large sizes was found"


def computes(rule: Rewrite | PythonRule) -> bool:
    """Whether Python functions compute something of the right side."""
    return isinstance(rule, PythonRule) or any(
        isinstance(part, Compute) for template in rule.rhs for part in spoken_of(template)
    )


def _moved(
    rule: Rewrite | PythonRule, batch: list[Instance], sizes: Mapping[int, int], rng: random.Random
) -> list[tuple[Exchange | str, list[tuple[Expr, ...]]]]:
    """Instances at other sizes, or why there is none, and what the rule makes of them."""
    moved: list[Exchange | str] = []
    there: list[Instance] = []
    for instance in batch:
        exchange = Exchange(partial(exchanged, sizes), rng)
        try:
            roots = exchange.all(instance.roots)
            types = infer_types(Tuple(roots))
        except EqsatError as error:
            moved.append(str(error))
            continue
        for node, ty in types.items():
            node._checked_type = ty
        moved.append(exchange)
        there.append(Instance(roots, {var: None for var in exchange.made.values() if isinstance(var, Var)}))  # type: ignore[misc]
    sides = iter(right_sides(rule, there))
    return [(exchange, [] if isinstance(exchange, str) else next(sides)) for exchange in moved]


def _tried(rule: Rewrite | PythonRule, batch: list[Instance], rng: random.Random) -> list[tuple[Any, ...]]:
    """For each instance the same at some choices of other sizes, if what Python computes may depend on them."""
    if not computes(rule):
        return [()] * len(batch)
    choices = [{prime: rng.randint(2, 60) for prime in PRIMES} for _ in range(TRIED)]
    return list(zip(*[_moved(rule, batch, choice, rng) for choice in choices], strict=True))


def _written(exchange: Exchange, sides: Sequence[Any], others: Sequence[Any]) -> list[tuple[Expr, ...]]:
    """Right sides at other sizes.

    Raises:
        NoTermError: The rule makes something else there.
    """
    exchange.rng = None
    written = [exchange.all(side) for side in sides]
    if not all(any(alike(side, other) for other in others) for side in written):
        raise NoTermError("what the rule makes at other sizes is not told by that at these")
    return written


def _prove_one(instance: Instance, exchange: Exchange, sides: Sequence[Any], others: Sequence[Any]) -> set[str]:
    """Prove an instance for all sizes, and tell what is assumed.

    Raises:
        NoTermError: There is no proof.
    """
    assumed: set[str] = set()
    left = exchange.all(instance.roots)
    for side, right in zip(sides, _written(exchange, sides, others), strict=True):
        assumed |= shown((instance.roots, side), (left, right))
    return assumed


def shown(here: tuple[Any, Any], there: tuple[Any, Any]) -> set[str]:
    """Show that two sides are equal for all sizes, and tell what is assumed.

    Args:
        here: both sides at the primes.
        there: both at the other primes.

    Raises:
        NoTermError: There is no proof.
    """
    terms, scope = Terms(), Scope()
    terms.normal = Normal(scope)
    first = _elements(terms, scope, *here, PRIMES)
    second = _elements(terms, scope, *there, tuple(OTHERS[prime] for prime in PRIMES))
    if any(one is not two for pair, again in zip(first, second, strict=True)
           for one, two in zip(pair, again, strict=True)):  # fmt: skip
        raise NoTermError("a kernel computes with the sizes themselves")
    if unequal(first) is not None:
        raise NoTermError("not shown to be equal at sizes that are not known")
    return terms.assumed | ({"sizes are in the order of those drawn"} if scope.assumed else set())


EXPANDING = ("broadcast_to", "broadcast_to_like", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like")
"""Operators whose shape alone is told by something else than the elements."""
EXPANDS = {*EXPANDING, *[f"dyn.{name}" for name in EXPANDING]}


def by_element(rule: Rewrite | PythonRule) -> set[str] | None:
    """What is assumed for a proof to hold at any rank, None if the rule does not take its inputs element by element.

    The element of a side at an index is then the same function of the elements of the inputs at that index, broadcast
    to the type that both sides have, whatever the shape is.
    """
    if not isinstance(rule, Rewrite) or any(map(is_variadic, rule.lhs)):
        return None
    assumed: set[str] = set()
    stack: list[Any] = [*rule.lhs, *rule.rhs]
    while stack:
        part = stack.pop()
        if isinstance(part, Compute):
            assumed.add("what Python computes for the right side does not depend on the rank")
        elif isinstance(part, Like):
            stack += [*part.args, part.call, *[each for each in part.changes.values() if isinstance(each, Compute)]]
        elif isinstance(part, ExprPattern) and isinstance(part.expr, Op):
            if not part.expr.has(Trait.ELEMENTWISE) and part.expr.name not in EXPANDS:
                return None
        elif isinstance(part, ExprPattern):
            if not isinstance(part.expr, Constant) or part.expr.data.numpy().ndim:
                return None
        elif isinstance(part, AttrPattern):
            operator = getattr(getattr(part.pattern, "named", None), "name", None)
            if operator not in EXPANDS:
                stack += [each for each in part.attrs.values() if isinstance(each, Compute)]
            stack.append(part.pattern)
        elif isinstance(part, (CallPattern, AltPattern, ConstantPattern, WildcardPattern)):
            stack += part.children()
        else:
            return None
    return assumed


def alike(one: tuple[Expr, ...], other: tuple[Expr, ...]) -> bool:
    """Whether two graphs over the same variables are the same but for the identity of nodes."""
    known: dict[Expr, int] = {}
    numbers: dict[Any, int] = {}
    for node in post_order(Tuple((*one, *other))):
        attrs: Any = None
        if isinstance(node, Var):
            attrs = node
        elif isinstance(node, Constant):
            array = node.data.numpy()
            attrs = (str(array.dtype), array.shape, array.tobytes())
        elif isinstance(node, Call):
            attrs = (node.op, node.attrs)
        elif isinstance(node, TupleGetItem):
            attrs = node.index
        elif isinstance(node, Op):
            attrs = node.name
        key = (type(node), attrs, *[known[child] for child in node.children()])
        known[node] = numbers.setdefault(key, len(numbers))
    return [known[root] for root in one] == [known[root] for root in other]


# ---- elements


def _elements(
    terms: Terms, scope: Scope, left: tuple[Expr, ...], right: tuple[Expr, ...], primes: Sequence[int]
) -> list[tuple[Term, Term]]:
    """The elements of both sides at indices that stand for all."""
    scope.restart()
    names = {prime: f"n{place}" for place, prime in enumerate(primes, 1)}
    run = _Run(terms, scope, names)
    first = run.all(left)
    try:
        second = run.all(right)
    except UnsuitedError as error:
        raise NoTermError(str(error)) from None
    pairs: list[tuple[Term, Term]] = []
    for one, other in zip(first, second, strict=True):
        pairs += run.compared(one, other)
    return pairs


class _Run:
    """Computes graphs on arrays of sizes that are not known."""

    def __init__(self, terms: Terms, scope: Scope, names: Mapping[int, str]):
        self.terms, self.scope, self.names = terms, scope, names
        self.leaves: dict[Any, int] = {}
        self.types: dict[Expr, Type] = {}

    def sized(self, number: int) -> Any:
        """A number as the product of sizes that it is."""
        rest, primes = factored(int(number), self.names)  # type: ignore[arg-type]
        poly = product([rest, *[Poly.name(self.names[prime]) for prime in primes]])
        return Size(int(number), poly, self.scope) if primes else int(number)

    def all(self, roots: tuple[Expr, ...]) -> list[Any]:
        values: dict[Expr, Any] = {}
        whole = Tuple(roots)
        self.types = infer_types(whole)
        for node in post_order(whole):
            if isinstance(node, Var):
                values[node] = self._leaf(node, self.types[node])
            elif isinstance(node, Constant):
                values[node] = self._constant(node)
            elif isinstance(node, Tuple):
                values[node] = tuple(values[field] for field in node.fields)
            elif isinstance(node, TupleGetItem):
                values[node] = values[node.tuple_value][node.index]
            elif isinstance(node, Call) and isinstance(node.op, Op):
                values[node] = self._call(node, [values[arg] for arg in node.args])
            elif not isinstance(node, Op):
                raise NoTermError(f"there are no terms for {type(node).__name__} nodes")
        return [values[root] for root in roots]

    def _leaf(self, key: Any, ty: Type) -> Any:
        if isinstance(ty, TupleType):
            return tuple(self._leaf((key, place), each) for place, each in enumerate(ty.fields))
        assert isinstance(ty, TensorType)
        leaf, sort = self.leaves.setdefault(key, len(self.leaves)), sort_of(ty.dtype)
        return SymbolicArray(
            self.terms,
            self.scope,
            [self.sized(dim) for dim in ty.concrete_shape],
            ty.dtype,
            lambda indices: self.terms.make("read", (), (leaf, indices), sort),
        )

    def _constant(self, node: Constant) -> Any:
        array = node.data.numpy()
        if not any(isinstance(self.sized(dim), Size) for dim in array.shape):
            return self._integers(array) if array.dtype.kind in "iu" else lifted(self.terms, self.scope, array)
        uniform = self._uniform(array, self.types[node])
        if uniform is not None:
            return uniform
        return self._leaf((str(array.dtype), array.shape, array.tobytes()), self.types[node])

    def _integers(self, array: Any) -> Any:
        """Integers, among which may be sizes."""
        sizes = [self.sized(each) for each in array.flat] if array.ndim <= 1 and array.size <= MOST else []
        if not any(isinstance(each, Size) for each in sizes):
            return array
        made = np.empty(array.shape, object)
        for place, each in enumerate(sizes):
            made[place if array.ndim else ()] = each
        return made

    def _uniform(self, array: Any, ty: Any) -> SymbolicArray | None:
        """An array of one number everywhere, of the sizes that a type tells."""
        if not array.size or not np.all(array == array.flat[0]):
            return None
        number = lifted(self.terms, self.scope, array.flat[0], array.dtype)
        shape = [self.sized(dim) for dim in ty.concrete_shape]
        return number.made(shape, lambda indices: number.at(()))

    def _call(self, call: Call, given: list[Any]) -> Any:
        op = call.op
        assert isinstance(op, Op)
        denotation = denotation_of(op)
        attrs = complete_attrs(op, call.attrs)
        if attrs is not None:
            attrs = Attrs({name: self._attribute(value) for name, value in attrs.items()}, attrs.type_key)
        try:
            return self._typed(denotation(attrs, *given), self.types[call])
        except UnsuitedError:
            raise
        except EqsatError as error:
            raise NoTermError(f"{op.name}: {error}") from None
        except Exception as error:  # whatever NumPy raises: the operator has no terms
            raise NoTermError(f"{op.name}: {type(error).__name__}: {error}") from None

    def _attribute(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self._attribute, value))
        return self.sized(value) if isinstance(value, int) and not isinstance(value, bool) else value

    def _typed(self, value: Any, ty: Type) -> Any:
        if isinstance(value, (tuple, list)):
            assert isinstance(ty, TupleType)
            return tuple(self._typed(*pair) for pair in zip(value, ty.fields, strict=True))
        assert isinstance(ty, TensorType)
        if isinstance(value, SymbolicArray):
            return value.astype(ty.dtype)
        array = np.asarray(value).astype(ty.dtype)
        if not any(isinstance(self.sized(dim), Size) for dim in array.shape):
            return array if array.dtype.kind in "iu" else lifted(self.terms, self.scope, array)
        uniform = self._uniform(array, ty)
        if uniform is None:
            raise NoTermError("an array that is computed of sizes")
        return uniform

    def compared(self, one: Any, other: Any) -> list[tuple[Term, Term]]:
        """The elements of two values at indices that stand for all."""
        if isinstance(one, tuple):
            return [pair for each in zip(one, other, strict=True) for pair in self.compared(*each)]
        one, other = [
            each if isinstance(each, SymbolicArray) else lifted(self.terms, self.scope, each) for each in (one, other)
        ]
        if [Poly.of(dim) for dim in one.shape] != [Poly.of(dim) for dim in other.shape] or one.dtype != other.dtype:
            raise NoTermError("the sides differ in type where sizes are not known")
        ranges = [[Poly.of(place) for place in range(dim)] if Poly.of(dim).constant is not None else
                  [self.scope.index(dim)] for dim in one.shape]  # fmt: skip
        if np.prod([len(each) for each in ranges], dtype=object) > MOST:
            raise UnsuitedError("the sides have many elements along axes of known sizes")
        return [(one.at(indices), other.at(indices)) for indices in combinations(*ranges)]
