"""Algebraic data types: text, types, values, and what passes and patterns make of matches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import eqsat
import eqsat.rules
from eqsat import relay
from eqsat.errors import ArgumentError, EvaluationError, TypeCheckError
from eqsat.ir import assert_structural_equal, structural_equal, structural_hash
from eqsat.relay import transform
from eqsat.relay.dataflow_pattern import (
    DFPatternCallback,
    dominates,
    is_constant,
    is_expr,
    is_op,
    is_tuple,
    is_var,
    rewrite,
    wildcard,
)
from eqsat.relay.dataflow_pattern.graph import DataflowGraph
from eqsat.relay.parser.parser import Parser
from eqsat.relay.visitor import post_order

from .graphs import CONS, LIST, LIST_TYPE, NIL, modules_with_matches

PROGRAM = """\
#[version = "0.0.5"]
type List[A] {
  Cons(A, List[A]),
  Nil,
}

type Tree {
  Leaf,
  Node(int32, Tree, Tree),
}

extern type File

def @length[A](%xs: List[A]) -> int32 {
  match? (%xs) {
    Cons(_, %t) => {
      %0 = @length(%t);
      add(1, %0)
    },
    _ => {
      0
    },
  }
}

def @map[A, B](%f: fn (A) -> B, %xs1: List[A]) -> List[B] {
  match (%xs1) {
    Cons(%h, %t1) => {
      %1 = %f(%h);
      %2 = @map(%f, %t1);
      Cons(%1, %2)
    },
    Nil => {
      Nil
    },
  }
}

def @sum(%t2: Tree) -> int32 {
  match (%t2) {
    Node(%v, Leaf, %r) => {
      %3 = @sum(%r);
      add(%3, %v)
    },
    Node(%v1, %l, %r1) => {
      let %s = @sum(%l);
      %4 = @sum(%r1);
      %5 = add(%s, %4);
      add(%5, %v1)
    },
    Leaf => {
      0
    },
  }
}
"""


def read(text: str) -> eqsat.IRModule:
    parser = Parser(text, None)
    parser.version(required=True)
    return parser.module()


def run(main: str, **inputs: object) -> object:
    return relay.interpreter.evaluate(relay.parse(f"{PROGRAM}\ndef @main{main}"), inputs)


class TestText:
    def test_reads_and_prints(self) -> None:
        assert read(PROGRAM).astext() == PROGRAM

    def test_typed_programs_too(self) -> None:
        typed = relay.parse(PROGRAM, source_name=None)
        again = relay.parse(typed.astext(), source_name=None)
        assert_structural_equal(again, typed)
        assert again.astext() == typed.astext()
        assert "Cons(%h: A /* ty=A */, %t1: List[A] /* ty=List[A] */) =>" in str(typed)

    def test_a_constructor_without_fields_is_called_unless_fn_is_before_it(self) -> None:
        mod = relay.parse(f"{PROGRAM}def @main() {{ (Nil, Nil(), Cons(1, Nil), fn Nil, (Nil)) }}")
        fields = mod["main"].body.fields
        nil = mod.get_type("List")[2]
        assert [getattr(field, "op", field) for field in fields] == [nil, nil, mod.get_type("List")[1], nil, nil]
        assert fields[3].same_as(nil)
        assert_structural_equal(relay.parse(mod.astext()), mod)

    @settings(max_examples=50, deadline=None)
    @given(modules_with_matches())
    def test_print_then_parse_gives_back_every_module(self, module: eqsat.IRModule) -> None:
        again = read(module.astext())
        assert_structural_equal(again, module, map_free_vars=True)
        assert structural_hash(again, map_free_vars=True) == structural_hash(module, map_free_vars=True)

    def test_a_match_may_stand_anywhere(self) -> None:
        text = "free_var %x; match (%x) { %y => 1 } + match? (%x) { (_, %z) => %z, }"
        expr = relay.parse_expr(text)
        assert [type(arg) for arg in expr.args] == [relay.Match, relay.Match]
        assert_structural_equal(relay.parse_expr(str(expr)), expr, map_free_vars=True)

    def test_a_variable_is_matched_with_or_without_parentheses(self) -> None:
        with_them, without = (relay.parse_expr(f"free_var %x; match {data} {{ _ => 1 }}") for data in ("(%x)", "%x"))
        assert_structural_equal(with_them, without, map_free_vars=True)

    def test_names_of_clauses_end_with_them(self) -> None:
        with pytest.raises(eqsat.EqsatError, match="%y is not defined"):
            relay.parse_expr("free_var %x; match (%x) { %y => 1, _ => %y }")


class TestTypes:
    def test_of_constructors_clauses_and_generic_calls(self) -> None:
        mod = relay.parse(PROGRAM)
        assert str(mod["length"].checked_type) == "fn [A] (List[A]) -> int32"
        assert str(mod["map"].checked_type) == "fn [A, B] (fn (A) -> B, List[A]) -> List[B]"
        mod = relay.parse(f"{PROGRAM}def @main(%x: float32) {{ (Cons(%x, Nil()), Nil(), Leaf(), @length(Nil())) }}")
        assert str(mod["main"].body.checked_type) == "(List[float32], List[_], Tree, int32)"

    def test_the_clause_that_tells_more_decides(self) -> None:
        mod = relay.parse(f"{PROGRAM}def @main(%c: bool) {{ if (%c) {{ Nil() }} else {{ Cons(True, Nil()) }} }}")
        assert str(mod["main"].body.checked_type) == "List[bool]"

    def test_dimensions_that_are_not_known(self) -> None:
        mod = relay.parse(f"{PROGRAM}def @main(%x: Tensor[(?, 2), int8]) {{ Cons(%x, Nil()) }}")
        assert str(mod["main"].body.checked_type) == "List[Tensor[(?, 2), int8]]"

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ("Cons(1)", "Cons takes 2 arguments and is called with 1"),
            ("Cons(1, Cons(True, Nil()))", r"Cons: argument 1 must be List\[int32\] and is List\[bool\]"),
            ("match (1) { Nil => 2 }", r"Nil makes values of List\[A\] and is matched with int32"),
            ("match (Leaf()) { Nil => 2 }", "is matched with Tree"),
            ("match ((1, 2)) { (%x,) => 2 }", r"a tuple of 1 fields is matched with \(int32, int32\)"),
            ("match (1) { %x: bool => 2 }", "%x: bool is matched with int32"),
            ("match (Leaf()) { Leaf => 1, _ => True }", "the clauses of a match differ in type: int32 and bool"),
            ("@length(1)", r"@length: argument 0 must be List\[_\] and is int32"),
        ],
    )
    def test_that_do_not_check(self, body: str, message: str) -> None:
        with pytest.raises(TypeCheckError, match=message):
            relay.parse(f"{PROGRAM}def @main() {{ {body} }}")

    def test_a_constructor_without_definition(self) -> None:
        stray = relay.Constructor("Stray", [], relay.GlobalTypeVar("T"))
        with pytest.raises(TypeCheckError, match="Stray belongs to no definition of T"):
            transform.InferType()(eqsat.IRModule.from_expr(stray()))


class TestValues:
    def test_what_matches_give(self) -> None:
        assert run("() { @sum(Node(3, Leaf(), Node(4, Node(5, Leaf(), Leaf()), Leaf()))) }") == 12
        assert run("() { @length(Cons(1, Cons(2, Nil()))) }") == 2

    def test_what_constructors_make(self) -> None:
        value = run("(%x: float32) { @map(fn (%y: float32) { %y * 2f }, Cons(%x, Cons(1f, Nil()))) }", x=4.0)
        assert repr(value) == "Cons(array(8., dtype=float32), Cons(array(2., dtype=float32), Nil()))"

    def test_a_constructor_is_a_function(self) -> None:
        assert repr(run("() { let %make = Cons; %make(1, Nil()) }")) == "Cons(array(1, dtype=int32), Nil())"

    def test_lists_longer_than_pythons_stack(self) -> None:
        text = "def @count(%n: int32, %xs: List[int32]) -> List[int32] { if (%n == 0) { %xs } else { @count(%n - 1, Cons(%n, %xs)) } }"  # noqa: E501
        value = relay.interpreter.evaluate(
            relay.parse(f"{PROGRAM}{text}\ndef @main(%n: int32) {{ @length(@count(%n, Nil())) }}"), {"n": 2_000}
        )
        assert value == 2_000

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ("match? (Leaf()) { Node(_, _, _) => 1 }", "no clause of a match applies"),
            ("let %f = fn (%x) { match (%x) { Nil => 1 } }; %f(1)", "is matched with Nil"),
        ],
    )
    def test_that_no_clause_takes(self, body: str, message: str) -> None:
        module = read(f"{PROGRAM}def @main() {{ {body} }}")
        with pytest.raises(EvaluationError, match=message):
            relay.interpreter.evaluate(module)


class TestEquality:
    def test_names_of_type_parameters_do_not_count(self) -> None:
        renamed = PROGRAM.replace("[A](%xs: List[A])", "[Z](%xs: List[Z])")
        for infer in (read, relay.parse):
            assert structural_equal(infer(PROGRAM), infer(renamed))
            assert structural_hash(infer(PROGRAM)) == structural_hash(infer(renamed))

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("match? (%xs)", "match (%xs)"),
            ("Node(%v, Leaf, %r)", "Node(%v, _, %r)"),
            ("Cons(_, %t)", "Cons(%u, %t)"),
            ("  Nil,\n}", "  Nil,\n  Other,\n}"),
            ("Node(int32,", "Node(int64,"),
            ("extern type File\n", ""),
            ("[A, B](%f: fn (A) -> B, %xs1: List[A]) -> List[B]", "[A, B](%f: fn (A) -> B, %xs1: List[B]) -> List[B]"),
            ("[A](%xs", "[A, B](%xs"),
        ],
    )
    def test_what_counts(self, old: str, new: str) -> None:
        assert old in PROGRAM
        assert not structural_equal(read(PROGRAM), read(PROGRAM.replace(old, new)))


def first_match(mod: eqsat.IRModule, name: str) -> relay.Match:
    (match,) = (node for node in post_order(mod[name]) if isinstance(node, relay.Match))
    return match


class TestPatterns:
    def test_only_wildcards_and_equal_expressions_match_a_match(self) -> None:
        node = first_match(read(PROGRAM), "sum")
        assert wildcard().match(node)
        assert is_expr(node).match(node)
        for pattern in (is_constant(), is_var(), is_tuple(None), wildcard()(None), wildcard().has_attr({})):
            assert not pattern.match(node)

    def test_variables_of_clauses_are_variables(self) -> None:
        node = first_match(read(PROGRAM), "map")
        call = node.clauses[0].rhs
        assert wildcard()(is_op("tanh"), wildcard()).match(call) is False
        assert wildcard()(is_var("f")(is_var("h")), wildcard()).match(call)
        assert is_expr(CONS).match(call.op)

    def test_order_and_flow(self) -> None:
        x = relay.var("x")
        head, tail = relay.var("h"), relay.var("t")
        data, rhs = relay.tanh(x), relay.nn.relu(head)
        clause = relay.Clause(relay.PatternConstructor(CONS, [relay.PatternVar(head), relay.PatternVar(tail)]), rhs)
        other = relay.Clause(relay.PatternConstructor(NIL), x)
        node = relay.Match(data, [clause, other])
        graph = DataflowGraph(node)
        assert graph.order == [relay.op.get("tanh"), x, data, head, tail, relay.op.get("nn.relu"), rhs, node]
        assert graph.users[data] == [head, tail]
        assert graph.users[rhs] == [node]
        assert graph.users[x] == [data, node]
        assert graph.dominates(rhs, head)
        assert not graph.dominates(rhs, x)

    def test_regions_go_through_clauses(self) -> None:
        head = relay.var("h")
        data = relay.nn.conv2d(relay.var("x"), relay.var("w"))
        match = relay.Match(data, [relay.Clause(relay.PatternVar(head), relay.tanh(head))])
        region = dominates(is_op("nn.conv2d")(None), wildcard(), is_op("nn.relu")(wildcard()))
        assert region.match(relay.nn.relu(match)) is False  # the variable is a leaf of tanh
        through = relay.Match(data, [relay.Clause(relay.PatternVar(head), relay.Tuple([head]))])
        assert region.match(relay.nn.relu(through))

    def test_rewriting_ends_and_keeps_matches(self) -> None:
        class TanhOfTanh(DFPatternCallback):
            def __init__(self) -> None:
                super().__init__()
                self.pattern = is_op("tanh")(is_op("tanh")(wildcard()))

            def callback(self, pre, post, node_map):  # type: ignore[no-untyped-def]
                return post.args[0]

        mod = relay.parse(PROGRAM)
        for name in ("map", "sum", "length"):
            assert rewrite(TanhOfTanh(), mod[name]) is mod[name]
        x, head = relay.var("x"), relay.var("h")
        clause = relay.Clause(relay.PatternVar(head), relay.tanh(relay.tanh(head)))
        rewritten = rewrite(TanhOfTanh(), relay.Match(relay.tanh(relay.tanh(x)), [clause]))
        expected = relay.Match(relay.tanh(x), [relay.Clause(relay.PatternVar(head), relay.tanh(head))])
        assert_structural_equal(rewritten, expected)

    def test_partitioning_inside_clauses(self) -> None:
        x, head = relay.var("x"), relay.var("h")
        match = relay.Match(x, [relay.Clause(relay.PatternVar(head), relay.nn.relu(relay.tanh(head)))])
        made = is_op("nn.relu")(is_op("tanh")(wildcard())).partition(match)
        call = made.clauses[0].rhs
        assert isinstance(call.op, relay.Function)
        assert call.args == (head,)


class TestPasses:
    def test_keep_the_definitions(self) -> None:
        mod = relay.parse(PROGRAM)
        passes = [
            transform.InferType(),
            transform.FoldConstant(),
            transform.SimplifyExpr(),
            transform.EliminateCommonSubexpr(),
            transform.DeadCodeElimination(),
            transform.ToGraphNormalForm(),
            transform.MergeComposite([("sum", is_op("add")(wildcard(), wildcard()))]),
            transform.AnnotateTarget("none"),
            transform.MergeCompilerRegions(),
            transform.PartitionGraph(),
        ]
        after = transform.Sequential(passes)(mod)
        assert list(after.type_definitions) == list(mod.type_definitions)
        tree = "Node(3, Leaf(), Node(4, Node(5, Leaf(), Leaf()), Leaf()))"
        after.update(relay.parse(f"{PROGRAM}def @main() {{ @sum({tree}) }}").copy())
        assert relay.interpreter.evaluate(after) == 12

    def test_dead_code_inside_clauses(self) -> None:
        clause = "Cons(%h, %t) => { let %dead = %h + 1; %h }, Nil => 0,"
        mod = relay.parse(f"{PROGRAM}def @main(%xs: List[int32]) {{ match (%xs) {{ {clause} }} }}")
        assert "let" not in str(transform.DeadCodeElimination()(mod)["main"])

    def test_constants_inside_clauses(self) -> None:
        mod = relay.parse(f"{PROGRAM}def @main(%xs: List[int32]) {{ match (%xs) {{ _ => 1 + 2 }} }}")
        folded = transform.FoldConstant()(mod)["main"].body.clauses[0].rhs
        assert isinstance(folded, relay.Constant)
        assert folded.data.numpy() == 3


def test_saturation_keeps_matches_whole() -> None:
    main = "def @main(%n: int32, %x: float32) { (@sum(Node(%n + 0, Leaf(), Leaf())), Cons(%x * 1f, Nil())) }"
    mod = relay.parse(f"{PROGRAM}{main}")
    best = eqsat.optimize(mod, rules=eqsat.rules.default)
    assert list(best.type_definitions) == list(mod.type_definitions)
    assert isinstance(first_match(best, "sum"), relay.Match)
    total, values = relay.interpreter.evaluate(best, {"n": 3, "x": 2.0})
    assert total == 3
    assert repr(values) == "Cons(array(2., dtype=float32), Nil())"


def test_modules_hold_types() -> None:
    mod = eqsat.IRModule(type_definitions={LIST: LIST_TYPE})
    assert mod.get_type("List") == (LIST, CONS, NIL)
    assert mod.get_global_type_var("List") is LIST
    assert LIST in mod
    assert mod[LIST] is LIST_TYPE
    assert mod.copy()[LIST] is LIST_TYPE
    with pytest.raises(ArgumentError, match=r"no type Tree; it has \['List'\]"):
        mod[relay.GlobalTypeVar("Tree")]


def test_pictures() -> None:
    picture = relay.viz(relay.parse(PROGRAM))
    for title in ("Node(v, Leaf, r)", "Leaf", "_"):
        assert f'label="{title}"' in picture.dot
    assert picture.svg.startswith("<svg")


def test_visitors() -> None:
    class Renaming(relay.ExprMutator):
        def visit_var(self, variable: relay.Var) -> relay.Var:
            return relay.Var(f"new_{variable.name_hint}", variable.type_annotation)

        def visit_constructor(self, constructor: relay.Constructor) -> relay.Constructor:
            return constructor

    function = read(PROGRAM)["map"]
    renamed = Renaming().visit(function)
    assert_structural_equal(renamed, function)
    assert [variable.name_hint for variable in first_match_of(renamed).binds] == ["new_h", "new_t1"]


def first_match_of(function: relay.Function) -> relay.Match:
    assert isinstance(function.body, relay.Match)
    return function.body


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: relay.Constructor("a b", [], LIST), "must be an identifier"),
        (lambda: relay.TypeData(relay.GlobalTypeVar("Other"), [], [NIL]), "Nil belongs to List, not to Other"),
        (lambda: relay.PatternConstructor(CONS, []), "a pattern of Cons needs 2 sub-patterns, not 0"),
        (lambda: relay.PatternVar(relay.const(1)), "a pattern can only bind a Var"),
        (lambda: eqsat.IRModule(type_definitions={LIST: 3}), "type List: a module needs its TypeData, not 3"),  # type: ignore[dict-item]
    ],
)
def test_bad_input(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ArgumentError, match=message):
        make()


def test_long_chains_of_matches() -> None:
    x = relay.var("x", shape=())
    expr: relay.Expr = x
    for _ in range(3_000):
        head = relay.var("h")
        expr = relay.Match(expr, [relay.Clause(relay.PatternVar(head), relay.tanh(head))])
    again = relay.parse_expr(expr.astext(), source_name=None)
    assert structural_equal(again, expr, map_free_vars=True)
    mod = transform.InferType()(eqsat.IRModule.from_expr(expr))
    assert str(mod["main"].checked_type) == "fn (float32) -> float32"
    assert relay.interpreter.evaluate(mod, {"x": np.float32(0)}) == 0
