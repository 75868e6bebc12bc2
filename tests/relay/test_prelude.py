"""The standard library: what its functions compute, and how it gets into a module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat import relay
from eqsat.errors import ArgumentError
from eqsat.ir import assert_structural_equal
from eqsat.relay.interpreter import evaluate
from eqsat.relay.prelude import Prelude

PRELUDE = Prelude()
LIST, CONS, NIL = PRELUDE.mod.get_type("List")
OPTION, SOME, NONE = PRELUDE.mod.get_type("Option")
TREE, ROSE = PRELUDE.mod.get_type("Tree")
INT = relay.scalar_type("int32")
numbers = st.lists(st.integers(-9, 9), max_size=6)


def given_list(items: Sequence[Any]) -> relay.Expr:
    """A list of expressions or numbers."""
    expr = NIL()
    for item in reversed(items):
        expr = CONS(item if isinstance(item, relay.Expr) else relay.const(item), expr)
    return expr


def plain(value: Any) -> Any:
    """A value in Python's terms."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if value.constructor.belong_to != LIST:
        return (value.constructor.name_hint, *map(plain, value.fields))
    items = []
    while value.fields:
        items.append(plain(value.fields[0]))
        value = value.fields[1]
    return items


def run(expr: relay.Expr, module: relay.IRModule = PRELUDE.mod) -> Any:
    """Type-check and compute an expression over the prelude."""
    typed = module.copy()
    typed["main"] = relay.Function([], expr)
    typed = relay.transform.InferType()(typed)
    return plain(evaluate(typed["main"].body, {}, typed))


def function(count: int, body: Callable[..., Any]) -> relay.Function:
    """A function of ``count`` numbers."""
    params = [relay.var(f"n{index}", INT) for index in range(count)]
    return relay.Function(params, body(*params))


plus_one = function(1, lambda x: x + relay.const(1))
minus = function(2, lambda x, y: x - y)


class TestLists:
    @settings(max_examples=30, deadline=None)
    @given(numbers, numbers)
    def test_functions_are_those_of_python(self, xs: list[int], ys: list[int]) -> None:
        p, a, b = PRELUDE, given_list(xs), given_list(ys)
        positive = function(1, lambda x: relay.greater(x, relay.const(0)))
        calls = [p.length(a), p.sum(a), p.concat(a, b), p.rev(a), p.zip(a, b), p.map(plus_one, a)]
        calls.append(p.filter(positive, a))
        assert run(relay.Tuple(calls)) == (
            len(xs),
            sum(xs),
            xs + ys,
            xs[::-1],
            list(zip(xs, ys, strict=False)),
            [x + 1 for x in xs],
            [x for x in xs if x > 0],
        )

    def test_places(self) -> None:
        xs = given_list([5, 6, 7])
        assert run(PRELUDE.hd(xs)) == 5
        assert run(PRELUDE.tl(xs)) == [6, 7]
        assert run(PRELUDE.nth(xs, relay.const(2))) == 7
        assert run(PRELUDE.update(xs, relay.const(1), relay.const(0))) == [5, 0, 7]

    def test_folds(self) -> None:
        xs = given_list([1, 2, 3])
        assert run(PRELUDE.foldl(minus, relay.const(10), xs)) == ((10 - 1) - 2) - 3
        assert run(PRELUDE.foldr(minus, relay.const(10), xs)) == 1 - (2 - (3 - 10))
        assert run(PRELUDE.foldr1(minus, xs)) == 1 - (2 - 3)

    def test_maps_that_carry_a_state(self) -> None:
        step = function(2, lambda state, x: relay.Tuple([state + x, state * x]))
        xs = given_list([1, 2, 3])
        assert run(PRELUDE.map_accuml(step, relay.const(1), xs)) == (7, [4 * 3, 2 * 2, 1 * 1])
        assert run(PRELUDE.map_accumr(step, relay.const(1), xs)) == (7, [6 * 1, 4 * 2, 1 * 3])

    def test_unfolding(self) -> None:
        n = relay.var("n", INT)
        pair = relay.Tuple([n - relay.const(1), n])
        step = relay.Function([n], relay.If(relay.equal(n, relay.const(0)), NONE(), SOME(pair)))
        assert run(PRELUDE.unfoldr(step, relay.const(3))) == [3, 2, 1]
        assert run(PRELUDE.unfoldl(step, relay.const(3))) == [1, 2, 3]


def test_functions_of_functions() -> None:
    twice = function(1, lambda x: x * relay.const(2))
    four = relay.const(4)
    assert run(relay.Call(PRELUDE.compose(twice, plus_one), [four])) == 10
    assert run(relay.Call(PRELUDE.flip(minus), [four, relay.const(1)])) == -3
    assert run(relay.Call(PRELUDE.iterate(twice, relay.const(3)), [four])) == 32
    assert run(PRELUDE.id(four)) == 4


def test_trees() -> None:
    tree = ROSE(relay.const(1), given_list([ROSE(relay.const(2), NIL()), ROSE(relay.const(3), NIL())]))
    assert run(PRELUDE.size(tree)) == 3
    assert run(PRELUDE.tmap(plus_one, tree)) == ("Rose", 2, [("Rose", 3, []), ("Rose", 4, [])])


class TestTensorArrays:
    x = np.arange(6, dtype="float32").reshape(3, 2)

    def call(self, name: str, *args: Any) -> relay.Expr:
        return PRELUDE.get_global_var(name, "float32")(*args)

    def test_unstacked_and_stacked_again(self) -> None:
        rows = self.call("tensor_array_unstack_tensor2", relay.const(self.x))
        assert run(rows) == [("tensor1_float32", row.tolist()) for row in self.x]
        assert run(self.call("tensor_array_stack", rows)) == ("tensor2_float32", self.x.tolist())

    def test_split_and_joined_again(self) -> None:
        tensor = PRELUDE.get_tensor_ctor("tensor2", "float32")(relay.const(self.x))
        array = self.call("tensor_array", relay.const(2))
        parts = self.call("tensor_array_split", array, tensor, relay.const(np.array([1, 2], "int32")))
        assert run(parts) == [("tensor2_float32", part.tolist()) for part in (self.x[:1], self.x[1:])]
        assert run(self.call("tensor_array_concat", parts)) == ("tensor2_float32", self.x.tolist())

    def test_scattered_and_read(self) -> None:
        values = self.call("tensor_array_unstack_tensor1", relay.const(np.array([1.5, 2.5], "float32")))
        array = self.call("tensor_array", relay.const(3))
        array = self.call("tensor_array_scatter", array, relay.const(np.array([2, 0], "int32")), values)
        assert run(self.call("tensor_array_read", array, relay.const(0))) == ("tensor0_float32", 2.5)
        assert run(array) == [("tensor0_float32", 2.5), ("tensor_nil_float32",), ("tensor0_float32", 1.5)]

    def test_every_rank_is_taken_by_each_function(self) -> None:
        mod = PRELUDE.mod
        assert len(mod[mod.get_global_type_var("tensor_int64_t")].constructors) == 8
        for rank in range(1, 7):
            ones = relay.ones((2,) + (1,) * (rank - 1), "int64")
            array = PRELUDE.get_global_var(f"tensor_array_unstack_tensor{rank}", "int64")(ones)
            assert len(run(array)) == 2


def test_natural_numbers() -> None:
    mod = relay.IRModule()
    mod.import_from_std("nat.rly")
    _, zero, succ = mod.get_type("nat")
    two = succ(succ(zero()))
    doubled = run(relay.Call(mod.get_global_var("nat_double"), [two]), mod)
    assert str(doubled).count("succ") == 4
    xs = given_list([5, 6, 7])
    assert run(mod.get_global_var("nat_nth")(xs, two), mod) == 7
    assert run(mod.get_global_var("nat_update")(xs, two, relay.const(0)), mod) == [5, 6, 0]
    assert run(relay.Call(mod.get_global_var("nat_iterate")(plus_one, two), [relay.const(1)]), mod) == 3


@pytest.mark.parametrize(
    ("left", "right", "product", "total"),
    [("Zero", "Raw", 0.0, 3.0), ("Raw", "One", 3.0, 4.0), ("One", "One", 1.0, 2.0), ("Raw", "Raw", 9.0, 6.0)],
)
def test_gradients(left: str, right: str, product: float, total: float) -> None:
    mod = relay.IRModule()
    mod.import_from_std("gradient.rly")
    values = {"Raw": "3f", "One": "fn () { 1f }", "Zero": "fn () { 0f }"}
    cells = f"{left}({values[left]}), {right}({values[right]})"
    text = f"""#[version = "0.0.5"]
    def @plus(%x: float32, %y: float32) -> float32 {{ %x + %y }}
    def @times(%x: float32, %y: float32) -> float32 {{ %x * %y }}
    def @main() -> (float32, float32) {{
      (@FromGradCell(@MultiplyGradCell(@times, {cells})), @FromGradCell(@AddGradCell(@plus, {cells})))
    }}"""
    mod = relay.parse(text, init_module=mod)
    assert plain(evaluate(mod["main"].body, {}, mod)) == (product, total)


class TestImport:
    def test_adds_what_is_not_there(self) -> None:
        mod = relay.IRModule.from_expr(relay.Function([], relay.const(1)))
        typed = mod.import_from_std("prelude.rly")
        assert {"main", "map", "foldl"} <= {var.name_hint for var in mod.get_global_vars()}
        assert typed["main"].checked_type == relay.FuncType([], INT)
        before = mod.functions
        mod.import_from_std("prelude.rly")
        assert mod.functions == before

    def test_survives_passes_in_between(self) -> None:
        mod = relay.transform.InferType()(Prelude().mod)
        assert Prelude(mod).mod is mod

    def test_refuses_another_type_of_a_name(self) -> None:
        mod = relay.parse('#[version = "0.0.5"] type List { End, }')
        with pytest.raises(ArgumentError, match="a type List of its own"):
            mod.import_from_std("prelude.rly")

    def test_refuses_files_that_are_not_there(self) -> None:
        with pytest.raises(ArgumentError, match=r"has the files .*'prelude.rly'\] and no 'lists.rly'"):
            relay.IRModule().import_from_std("lists.rly")

    def test_unknown_names(self) -> None:
        with pytest.raises(AttributeError, match="the prelude has no function 'mop'"):
            _ = PRELUDE.mop
        with pytest.raises(ArgumentError, match="type tensor_int8_t has no constructor 'tensor9_int8'"):
            PRELUDE.get_tensor_ctor("tensor9", "int8")

    def test_prints_and_parses(self) -> None:
        assert_structural_equal(relay.parse(PRELUDE.mod.astext(), source_name=None), PRELUDE.mod)


def test_type_variables_and_dtypes_of_functions() -> None:
    a, b = relay.TypeVar("a"), relay.TypeVar("b")
    x, y = relay.Var("x", relay.TupleType([a, INT])), relay.Var("y", relay.FuncType([b], b, [b]))
    generic = relay.Function([x, y], x, x.type_annotation, [a])
    assert relay.analysis.all_type_vars(generic) == [a, b]
    inside = relay.Function([x], relay.Let(y, relay.Function([], x), y))
    assert relay.analysis.bound_vars(inside) == [x, y]
    assert relay.analysis.bound_type_vars(generic) == [a, b]
    assert relay.analysis.free_type_vars(generic) == []
    assert relay.analysis.free_type_vars(generic.body) == [a]
    assert relay.analysis.free_type_vars(relay.FuncType([a], b, [b])) == [a]
    halves = relay.transform.InferType()(relay.IRModule.from_expr(relay.cast(relay.const(1), "float16")))
    assert relay.analysis.all_dtypes(halves["main"]) == {"int32", "float16"}
