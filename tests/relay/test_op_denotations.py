"""What the registry says of each element of an operator's result is what its kernel computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from eqsat.relay.expr import Op
from eqsat.relay.interpreter import evaluate_op
from eqsat.relay.op.nn.activation import softplus_of
from eqsat.relay.op.op import make_attrs
from eqsat.relay.op.tensor import erf_of, sigmoid_of
from eqsat.relay.relations import complete_attrs
from eqsat.rules.prove.arrays import TermArray, wrapped
from eqsat.rules.prove.sizes import Poly, Scope
from eqsat.rules.prove.symbolic import SymbolicArray
from eqsat.rules.prove.terms import REAL, NoTermError, Term, Terms, sort_of

from .op_cases import CASES

REASONS = sorted(name for name in CASES if isinstance(Op.get(name).denotation, str))
"""Operators that say why they have no denotation."""
OTHERS = sorted(CASES.keys() - set(REASONS))
OWN = [name for name in OTHERS if Op.get(name).denotation is not Op.get(name).kernel]
"""Operators with a denotation that is not their kernel."""

SYMBOLIC = {
    *("transpose", "reshape", "strided_slice", "reverse", "repeat", "tile", "nn.pad", "broadcast_to"),
    *("layout_transform", "concatenate", "split", "stack", "nn.matmul", "nn.dense", "nn.batch_matmul", "einsum"),
    *("nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose"),
    *("nn.avg_pool1d", "nn.max_pool2d", "nn.global_avg_pool2d", "sum", "prod", "max", "mean", "nn.softmax"),
}
"""Operators of which denotations also hold for arrays that are a shape and a function of indices."""

MOST = 100
"""Elements of the result of an example; the arguments have up to four times as many."""


# ---- terms with numbers in place of variables

NAMED: dict[str, Callable[..., Any]] = {
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": sigmoid_of,
    "erf": erf_of,
    "fast_exp": np.exp,
    "softplus": softplus_of,
    "extreme": np.maximum,
}
HEADS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "mul": np.multiply,
    "neg": np.negative,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
    "less": np.less,
    "eq": np.equal,
    "not": np.logical_not,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "choose": lambda condition, one, other: one if condition else other,
}


def is_parameter(op: Op, place: int) -> bool:
    """Whether an argument stands for an attribute of the operator without ``dyn.``: then it is numbers."""
    twin = Op.find(op.name.removeprefix("dyn."))
    return op.name.startswith("dyn.") and (op.arguments or ())[place] not in (twin.arguments or ())  # type: ignore[union-attr]


class Numbers:
    """Arrays of variables, each of which stands for a number."""

    def __init__(self, integers: bool, symbolic: bool):
        self.terms, self.scope = Terms(), Scope()
        self.integers, self.symbolic = integers, symbolic
        self.given: list[Any] = []

    def array(self, value: Any) -> Any:
        """A variable for each element, or the numbers where they stay numbers."""
        if isinstance(value, tuple):
            return tuple(map(self.array, value))
        if value.dtype.kind in "iu" and not self.integers:
            return value
        made = np.empty(value.shape, object)
        for place in np.ndindex(*value.shape):
            made[place] = self.terms.make("var", (), len(self.given), sort_of(value.dtype))
            self.given.append(value[place])
        if not self.symbolic:
            return wrapped(self.terms, made, value.dtype)

        def read(indices: tuple[Poly, ...]) -> Term:
            place = tuple(int(index.constant or 0) for index in indices)
            inside = all(0 <= each < dim for each, dim in zip(place, made.shape, strict=True))
            return made[place] if inside else self.terms.make("var", (), 0, sort_of(value.dtype))

        return SymbolicArray(self.terms, self.scope, value.shape, value.dtype, read)

    def elements(self, value: Any) -> Any:
        """The elements of a result as numbers."""
        if isinstance(value, (tuple, list)):
            return tuple(map(self.elements, value))
        if isinstance(value, SymbolicArray):
            found = [value.at(tuple(map(Poly.of, place))) for place in np.ndindex(*value.shape)]
            return self.evaluated(found).reshape(value.shape)
        if isinstance(value, TermArray) or np.asarray(value).dtype == object:
            return self.evaluated(np.asarray(value, object).view(np.ndarray).flat).reshape(np.shape(value))
        return np.asarray(value)

    def evaluated(self, found: Iterable[Any]) -> Any:
        values: list[Any] = []
        with np.errstate(all="ignore"):
            for term in self.terms.made:
                values.append(self.value(term, values))
        return np.array([values[each.number] if isinstance(each, Term) else float(each) for each in found])

    def value(self, term: Term, values: list[Any]) -> Any:
        kind = np.dtype(np.float64 if term.sort == REAL else term.sort).type
        if term.head == "var":
            return kind(self.given[term.data])
        if term.head == "const":
            return kind(float(term.data) if term.sort == REAL else term.data)
        args = [values[arg.number] for arg in term.args]
        if term.head in ("cast", "convert"):
            return kind(args[0])
        if term.head.startswith("f:"):
            name = term.head[2:]
            return kind((NAMED.get(name) or getattr(np, name))(*args))
        return kind((HEADS.get(term.head) or getattr(np, term.head))(*args))


# ---- comparing


def examples(name: str) -> Callable[[Callable[[Any, list[Any], Any], None]], None]:
    """Run a test on some calls of an operator: its attributes, arguments, and what its kernel computes."""

    def run(test: Callable[[Any, list[Any], Any], None]) -> None:
        op = Op.get(name)

        @given(st.data())
        @settings(max_examples=4, derandomize=True, deadline=None, database=None, suppress_health_check=[*HealthCheck])
        def each(data: st.DataObject) -> None:
            arguments, attrs = CASES[name](data.draw)
            arguments = [rounded(argument) for argument in arguments]
            made = make_attrs(op, attrs)
            wanted = evaluate_op(op, made, arguments)
            assume(size(wanted) and size(wanted) <= MOST and 2 < size(wanted) + sum(map(size, arguments)) <= 4 * MOST)
            test(made, arguments, wanted)

        each()

    return run


def size(value: Any) -> int:
    return sum(map(size, value)) if isinstance(value, tuple) else int(value.size)


def rounded(value: Any) -> Any:
    """Numbers of which few operations have to be rounded."""
    if isinstance(value, tuple):
        return tuple(map(rounded, value))
    return np.asarray(np.rint(value * 8) / 8, value.dtype) if value.dtype.kind == "f" else value


def same(found: Any, wanted: Any) -> bool:
    """Whether a value is what a kernel computes, up to rounding, where that is finite."""
    if isinstance(wanted, tuple):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    found = np.asarray(found)
    if found.shape != wanted.shape:
        return False
    finite = np.isfinite(wanted) if wanted.dtype.kind == "f" else np.ones(wanted.shape, bool)
    found, numbers = found[finite].astype(wanted.dtype), wanted[finite]
    if wanted.dtype.kind != "f":
        return np.array_equal(found, numbers)
    error = np.sqrt(np.finfo(wanted.dtype).eps)
    return np.allclose(found, numbers, rtol=error, atol=error)


@pytest.mark.parametrize("name", OWN)
def test_denotation_of_numbers(name: str) -> None:
    @examples(name)
    def _(attrs: Any, arguments: list[Any], wanted: Any) -> None:
        op: Any = Op.get(name)
        with np.errstate(all="ignore"):
            assert same(op.denotation(complete_attrs(op, attrs), *arguments), wanted)


def on_terms(op: Any, attrs: Any, arguments: list[Any], integers: bool, symbolic: bool) -> Any:
    """The denotation with variables in place of numbers, and then numbers in place of variables.

    Raises:
        NoTermError: It asks for the numbers.
    """
    numbers = Numbers(integers, symbolic)
    try:
        result = (op.kernel if op.name in REASONS else op.denotation)(
            complete_attrs(op, attrs),
            *[each if is_parameter(op, place) else numbers.array(each) for place, each in enumerate(arguments)],
        )
        return numbers.elements(result)
    except NoTermError:
        raise
    except Exception as error:
        raise NoTermError(str(error)) from error


@pytest.mark.parametrize("name", OTHERS)
def test_denotation_of_terms(name: str) -> None:
    op, shown, refused = Op.get(name), [], list[str]()

    @examples(name)
    def _(attrs: Any, arguments: list[Any], wanted: Any) -> None:
        for integers, symbolic in ((True, False), (False, False), (True, True), (False, True)):
            try:
                found = on_terms(op, attrs, arguments, integers, symbolic)
            except NoTermError as error:
                refused.append(str(error))
                continue
            assert same(found, wanted), (integers, symbolic, attrs)
            shown.append(symbolic)

    assert shown, f"give a denotation that computes with terms, or say why there is none: {set(refused)}"
    assert True in shown or name not in SYMBOLIC, set(refused)


@pytest.mark.parametrize("name", REASONS)
def test_what_has_no_denotation_has_a_kernel_that_asks_for_numbers(name: str) -> None:
    op, refused = Op.get(name), []

    @examples(name)
    def _(attrs: Any, arguments: list[Any], wanted: Any) -> None:
        try:
            on_terms(op, attrs, arguments, integers=False, symbolic=False)
        except NoTermError:
            refused.append(attrs)

    assert refused
