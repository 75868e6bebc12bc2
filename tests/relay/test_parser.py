"""Reading the text form: what the grammar takes, what it refuses and how, and that nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import eqsat
from eqsat import relay
from eqsat.errors import ArgumentError, ParseError, TypeCheckError
from eqsat.ir import assert_structural_equal, structural_equal
from eqsat.relay.parser.types import MAX_NESTING

from .graphs import exprs


def value(text: str) -> np.generic:
    node = relay.parse_expr(text)
    assert isinstance(node, relay.Constant)
    return node.data.numpy()[()]


class TestPrintThenParse:
    @settings(max_examples=100, deadline=None)
    @given(exprs())
    def test_gives_back_every_expression(self, expr: relay.Expr) -> None:
        assert_structural_equal(relay.parse_expr(expr.astext()), expr, map_free_vars=True)

    @settings(max_examples=60, deadline=None)
    @given(exprs())
    def test_gives_the_same_text_again(self, expr: relay.Expr) -> None:
        read = relay.parse_expr(expr.astext(), source_name=None)
        assert relay.parse_expr(read.astext(), source_name=None).astext() == read.astext()

    def test_gives_back_a_module_with_its_types(self) -> None:
        x = relay.var("x", shape=(2, 3))
        module = eqsat.IRModule()
        double = relay.GlobalVar("double")
        module[double] = relay.Function([x], relay.add(x, x), relay.TensorType((2, 3)))
        y = relay.var("y", shape=(2, 3))
        weight = relay.const(np.arange(6, dtype="float32").reshape(2, 3))
        module["main"] = relay.Function([y], relay.multiply(double(y), weight))
        read = eqsat.parser.parse(module.astext())
        assert str(read["main"].checked_type) == "fn (Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32]"
        assert_structural_equal(read, relay.transform.InferType()(module))

    def test_keeps_dimension_names(self) -> None:
        x = relay.var("x", shape=(relay.Any("n"), relay.Any("batch size"), relay.Any(), 3))
        assert str(x.type_annotation) == 'Tensor[(?n, ?"batch size", ?, 3), float32]'
        read = relay.parse_expr(str(relay.nn.relu(x)))
        assert read.args[0].type_annotation == x.type_annotation

    def test_keeps_one_object_for_a_shared_constant(self) -> None:
        weight = relay.const(np.ones((2,), "float32"))
        read = relay.parse_expr(relay.add(weight, weight).astext())
        assert read.args[0] is read.args[1]


class TestExpressions:
    def test_infix_operators_bind_as_usual(self) -> None:
        free = "free_var %a; free_var %b; free_var %c; "
        for infix, calls in {
            "%a + %b * %c": "add(%a, multiply(%b, %c))",
            "%a - %b - %c": "subtract(subtract(%a, %b), %c)",
            "(%a + %b) / %c": "divide(add(%a, %b), %c)",
            "%a + %b < %c": "less(add(%a, %b), %c)",
            "%a == %b < %c": "equal(%a, less(%b, %c))",
            "%a != %b >= %c * %c": "not_equal(%a, greater_equal(%b, multiply(%c, %c)))",
        }.items():
            assert structural_equal(relay.parse_expr(free + infix), relay.parse_expr(free + calls), True), infix

    def test_numbers(self) -> None:
        for text, expected in {
            "1": np.int32(1),
            "-7": np.int32(-7),
            "--7": np.int32(7),
            "1i64": np.int64(1),
            "3000000000": np.int64(3000000000),
            "2i16": np.int16(2),
            "1f": np.float32(1),
            "3.4028235e+38f": np.finfo("float32").max,
            "-1.5e-3f": np.float32(-1.5e-3),
            "0.1f64": np.float64(0.1),
            "2f16": np.float16(2),
            "inff": np.float32("inf"),
            "-inff64": np.float64("-inf"),
            "True": np.bool_(True),
        }.items():
            assert (value(text).dtype, value(text)) == (expected.dtype, expected), text
        assert np.isnan(value("nanf"))

    def test_a_statement_binds_an_unnamed_variable(self) -> None:
        read = relay.parse_expr("free_var %x; nn.relu(%x); %x")
        assert isinstance(read, relay.Let)
        assert read.value.op.name == "nn.relu"

    def test_a_graph_binding_is_one_node(self) -> None:
        read = relay.parse_expr("free_var %x; %0 = nn.relu(%x); add(%0, %0)")
        assert read.args[0] is read.args[1]

    def test_a_let_bound_function_may_call_itself(self) -> None:
        read = relay.parse_expr("let %f = fn (%x: float32) -> float32 { %f(%x) }; %f(1f)")
        assert read.value.body.op is read.var

    def test_names_have_scopes(self) -> None:
        read = relay.parse_expr("free_var %x; (let %x = 1f; %x, %x, fn (%x) { %x })")
        first, second, third = read.fields
        assert first.body is first.var
        assert third.body is third.params[0]
        assert second is not first.var
        assert second is not third.params[0]

    def test_calls_take_attributes_of_their_operator(self) -> None:
        read = relay.parse_expr("free_var %x; free_var %w; nn.conv2d(%x, %w, strides=[2, 2])")
        x, w = read.args
        assert structural_equal(read, relay.nn.conv2d(x, w, strides=2))
        bare = relay.parse_expr("free_var %x; free_var %w; nn.conv2d(%x, %w)")
        assert bare.attrs == relay.nn.conv2d(x, w).attrs

    def test_function_attributes(self) -> None:
        read = relay.parse_expr('fn (%x, relay.reshape_only=1, a=[1, 2.5f, "s"], b=None, c=@main) { %x }')
        assert dict(read.attrs.items() - {("c", read.attrs["c"])}) == {
            "relay.reshape_only": 1,
            "a": (1, 2.5, "s"),
            "b": None,
        }
        assert read.attrs["c"].name_hint == "main"

    def test_comments_nest(self) -> None:
        assert value("/* a /* b */ c */ 1 // d\n /* ty=int32 */") == 1

    def test_projections(self) -> None:
        read = relay.parse_expr("free_var %t; (%t.0).1")
        assert (read.index, read.tuple_value.index) == (1, 0)

    def test_the_older_form(self) -> None:
        read = relay.parse_expr(
            '#[version = "0.0.4"]\nfree_var %x: Tensor[(2), float32]\n%0 = nn.relu(%x);\nadd(%0, %x)'
        )
        assert str(read.args[1].type_annotation) == "Tensor[(2), float32]"

    def test_nodes_know_where_they_were_written(self) -> None:
        read = relay.parse_expr("free_var %x;\nadd(%x,\n  1f)")
        assert read.span == ("from_string", 2, 1)
        assert str(read.args[1].span) == "from_string:3:3"
        assert relay.parse_expr("1f", source_name=None).span is None

    def test_nesting_has_no_bound(self) -> None:
        depth = 8_000
        node = relay.parse_expr("free_var %x;" + "nn.relu(" * depth + "%x" + ")" * depth)
        for _ in range(depth):
            node = node.args[0]
        assert isinstance(node, relay.Var)
        assert isinstance(relay.parse_expr("(" * depth + "1" + ")" * depth), relay.Constant)
        assert isinstance(relay.parse_expr("fn () {" * depth + "1" + "}" * depth), relay.Function)

    def test_fromtext_reads_either(self) -> None:
        assert isinstance(relay.fromtext('#[version = "0.0.5"]\ndef @main() { 1 }'), eqsat.IRModule)
        assert isinstance(relay.fromtext('#[version = "0.0.5"]\n1'), relay.Constant)


class TestRefusals:
    @pytest.mark.parametrize(
        ("text", "line", "column", "message"),
        [
            (
                "add(%x, 1f)",
                1,
                5,
                "%x is not defined; expected a parameter or let of that name, or a line free_var %x;",
            ),
            ("free_var %x;\n%0 = add(%x %x);", 2, 13, "expected ',' or ')', found %x"),
            ("nn.relu(%0)", 1, 9, "%0 is not defined; expected a line %0 = ...; before this one"),
            ("free_var %x; nn.rellu(%x)", 1, 14, "there is no operator 'nn.rellu'; did you mean 'nn.relu'?"),
            ("free_var %x; clip(%x, a_min=0f)", 1, 14, "clip needs attribute 'a_max'"),
            ("free_var %x; nn.relu(%x, alpha=1f)", 1, 14, "nn.relu has no attribute 'alpha'"),
            ("free_var %f; %f(1, alpha=1f)", 1, 14, "expected attrs_type_key"),
            ("1.5", 1, 1, "1.5 is a float without the suffix f: write 1.5f"),
            ("40000i16", 1, 1, "40000i16 does not fit int16"),
            ("-32769i16", 1, 1, "-32769i16 does not fit int16"),
            ("2147483648i32", 1, 1, "2147483648i32 does not fit int32"),
            ("65505f16", 1, 1, "65505f16 does not fit float16"),
            ("3.40283e+38f", 1, 1, "3.40283e+38f does not fit float32"),
            ("1f8", 1, 1, "1f8 has no known type suffix"),
            ("(1, 2", 1, 6, "expected ',' or ')', found the end of the text"),
            ("free_var %t; %t.0.1", 1, 17, "write (t.0).1"),
            ("if (True) { 1 }", 1, 16, "expected 'else', found the end of the text"),
            ("free_var %x: Tensor[(2), flot32]; %x", 1, 26, "expected a type such as float32"),
            ("free_var %x: Tensor[(-2), int8]; %x", 1, 22, "a dimension is an integer of at least 0, or ?"),
            ("let %x = 1; ", 1, 13, "expected an expression, found the end of the text"),
            ("1 $ 2", 1, 3, "'$' begins no word"),
            ("1 /* /* */", 1, 3, "this comment is not closed"),
            ("meta[relay.Constant][0]", 1, 1, "is not in the metadata section; print with astext()"),
            ("match (1) { Nil => 2 }", 1, 13, "Nil is no constructor; known are []"),
            ("match (1) { 3 => 2 }", 1, 13, "expected a pattern: _, %name, a constructor or a tuple of patterns"),
            ("match (1) { _ -> 2 }", 1, 15, "expected '=>', found '->'"),
            ("match { _ => 2 }", 1, 7, "expected '(', found '{'"),
            ("fn [A](%x: B) { %x }", 1, 12, "expected a type such as float32"),
            ("fn [1](%x: B) { %x }", 1, 5, "expected the name of a type parameter"),
            ("fn (a=1, %x) { %x }", 1, 10, "expected an attribute: key=value, found %x"),
            ("1 }", 1, 3, "expected the end of the text, found '}'"),
            ('#[version = "0.0.1"]\n1', 1, 1, "version 0.0.1 of the text form is unknown"),
            ('1\n#[metadata]\n{"a": }', 3, 7, "the metadata section is not JSON"),
            ('meta[Widget][0]\n#[metadata]\n{"Widget": [null]}', 1, 1, "metadata entry Widget[0] has no readable form"),
            ('meta[relay.Constant][0]\n#[metadata]\n{"relay.Constant": [{}]}', 1, 1, "relay.Constant[0] is malformed"),
        ],
    )
    def test_an_expression(self, text: str, line: int, column: int, message: str) -> None:
        with pytest.raises(ParseError) as raised:
            relay.parse_expr(text)
        assert str(raised.value).startswith(f"line {line}, column {column}: ")
        assert message in str(raised.value)

    def test_show_the_line(self) -> None:
        with pytest.raises(ParseError) as raised:
            relay.parse_expr("free_var %x;\n  add(%x, ]\n)")
        assert str(raised.value).split("\n")[1:] == ["    add(%x, ]", "            ^"]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("def @main() { 1 }", 'expected the version line of a module, #[version = "0.0.5"]'),
            ('#[version = "0.0.5"]\n1', "expected 'def', a function's definition"),
            ('#[version = "0.0.5"]\ndef @f() { 1 }\ndef @f() { 2 }', "line 3, column 1: @f is defined twice"),
            ('#[version = "0.0.5"]\ntype T { A, }\ntype T { B, }', "line 3, column 6: type T is defined twice"),
            ('#[version = "0.0.5"]\ntype T { A, A }', "line 2, column 13: constructor A is defined twice"),
            ('#[version = "0.0.5"]\ntype T { A(int) }', "line 2, column 12: expected a type such as float32"),
            (
                '#[version = "0.0.5"]\ntype T { A(int8) }\ndef @f(%x: T) { match (%x) { A => 1 } }',
                "line 3, column 30: a pattern of A needs 1 sub-patterns, not 0",
            ),
        ],
    )
    def test_a_module(self, text: str, message: str) -> None:
        with pytest.raises(ParseError) as raised:
            relay.parse(text)
        assert message in str(raised.value)

    def test_types_that_do_not_check(self) -> None:
        with pytest.raises(TypeCheckError):
            relay.parse('#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), float32]) { @missing(%x) }')

    def test_types_nested_too_deep(self) -> None:
        with pytest.raises(ParseError, match="nest"):
            relay.parse_expr("free_var %x: " + "(" * (MAX_NESTING + 1) + ")" * (MAX_NESTING + 1) + "; %x")

    def test_what_is_no_text(self) -> None:
        with pytest.raises(ArgumentError):
            relay.parse(7)  # type: ignore[arg-type]


def test_integers_at_the_ends_of_their_range_and_the_plain_suffix() -> None:
    for text, dtype in (
        ("-32768i16", "int16"),
        ("-42i", "int32"),
        ("-2147483648i32", "int32"),
        ("2147483648", "int64"),
    ):
        assert_structural_equal(relay.parse_expr(text), relay.const(int(text.partition("i")[0]), dtype))


def test_a_text_uses_what_a_module_and_a_table_of_metadata_define() -> None:
    known = relay.parse("""#[version = "0.0.5"]
    type Box { Wrap(Tensor[(2), float32]) }
    def @negated(%y: Tensor[(2), float32]) -> Tensor[(2), float32] { negative(%y) }
    """)
    table = {"relay.Constant": [relay.const(np.array([1, 2], "float32"))]}
    text = """#[version = "0.0.5"]
    def @main(%x: Tensor[(2), float32]) { Wrap(@negated(add(%x, meta[relay.Constant][0]))) }
    """
    module = relay.parse(text, "from_string", known, table)
    assert {variable.name_hint for variable in module.get_global_vars()} == {"negated", "main"}
    assert str(module["main"].ret_type) == "Box"
    assert "main" not in known
    assert_structural_equal(relay.parse(module.astext()), module)
    with pytest.raises(eqsat.EqsatError, match="type Box is defined twice"):
        relay.parse(known.astext(), init_module=known)
