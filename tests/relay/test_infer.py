"""Type inference: what is found, and what is said when types do not check."""

from __future__ import annotations

import pytest

from eqsat import relay
from eqsat.errors import TypeCheckError
from eqsat.ir import assert_structural_equal, structural_equal
from eqsat.relay.expr import Call, Expr
from eqsat.relay.infer import infer_type
from eqsat.relay.ty import Any

image = relay.var("image", shape=(1, 3, 8, 8))
weight = relay.var("weight", shape=(4, 3, 3, 3))


def parse(text: str) -> relay.IRModule:
    return relay.fromtext('#[version = "0.0.5"]\n' + text)


def type_of(expr: Expr) -> str:
    return str(infer_type(expr).checked_type)


def test_a_call_made_by_hand_has_the_default_attributes() -> None:
    assert type_of(Call(relay.op.get("nn.conv2d"), [image, weight])) == "Tensor[(1, 4, 6, 6), float32]"


def test_an_attribute_without_a_default_must_be_given() -> None:
    with pytest.raises(TypeCheckError, match=r"reshape\(.*\): the call has no attributes: .* 'newshape'"):
        infer_type(Call(relay.op.get("reshape"), [image]))


def test_operator_and_types_are_named() -> None:
    wrong = relay.var("wrong", shape=(4, 5, 3, 3))
    with pytest.raises(TypeCheckError, match=r"nn\.conv2d\(Tensor\[\(1, 3, 8, 8\), float32\], Tensor\[\(4, 5, 3, 3\)"):
        infer_type(relay.nn.conv2d(image, wrong))


def test_the_number_of_arguments_is_checked() -> None:
    with pytest.raises(TypeCheckError, match="add takes 2 arguments"):
        infer_type(Call(relay.op.get("add"), [image]))


def test_unknown_dimensions_survive() -> None:
    batch = relay.var("batch", shape=(Any("n"), 3, 8, 8))
    assert type_of(relay.nn.conv2d(batch, weight)) == "Tensor[(?n, 4, 6, 6), float32]"
    assert type_of(relay.nn.batch_flatten(relay.nn.relu(batch))) == "Tensor[(?n, 192), float32]"


def test_a_free_variable_without_a_type_is_named() -> None:
    with pytest.raises(TypeCheckError, match="untyped"):
        infer_type(relay.nn.relu(relay.var("untyped")))


class TestWhatOnlyUsesDecide:
    """Types of what has no annotation, where they follow from how it is used."""

    @staticmethod
    def inferred(text: str) -> relay.IRModule:
        return relay.transform.InferType()(parse(text))

    def test_a_function_that_is_bound_and_called(self) -> None:
        main = self.inferred("def @main(%x: Tensor[(2), float32]) { let %f = fn (%y) { nn.relu(%y) }; %f(%x) }")["main"]
        assert str(main.ret_type) == "Tensor[(2), float32]"
        assert main.body.value.params[0].type_annotation == main.ret_type

    def test_a_function_that_is_passed_on(self) -> None:
        x, f = relay.var("x", "int32"), relay.var("f")
        assert type_of(relay.Function([x, f], relay.Call(f, [x]), x.type_annotation)) == (
            "fn (int32, fn (int32) -> int32) -> int32"
        )

    def test_a_bound_function_that_calls_itself(self) -> None:
        text = """
def @main(%n: int32) {
  let %f = fn (%i, %sum) { if (less(%i, 1)) { %sum } else { %f(subtract(%i, 1), add(%sum, %i)) } };
  %f(%n, 0)
}"""
        mod = self.inferred(text)
        assert str(mod["main"].body.value.checked_type) == "fn (int32, int32) -> int32"
        assert relay.interpreter.evaluate(mod, {"n": 4}) == 10

    def test_a_function_of_the_module_that_calls_itself(self) -> None:
        mod = self.inferred("def @f(%n: int32) { if (less(%n, 1)) { %n } else { @f(subtract(%n, 1)) } }")
        assert str(mod["f"].checked_type) == "fn (int32) -> int32"

    def test_functions_of_the_module_that_call_each_other(self) -> None:
        text = """
def @ping(%n: int32) { if (less(%n, 1)) { %n } else { @pong(subtract(%n, 1)) } }
def @pong(%n: int32) -> int32 { @ping(%n) }"""
        assert str(self.inferred(text)["ping"].checked_type) == "fn (int32) -> int32"

    def test_a_generic_function_as_each_of_its_instances(self) -> None:
        a, b = relay.TypeVar("a"), relay.TypeVar("b")
        x, y, z = relay.Var("x", a), relay.Var("y", b), relay.Var("z")
        identity = relay.Function([x], x, a, [a])
        f = relay.Var("f", relay.FuncType([b], b))
        apply = relay.Function([f, y], f(y), b, [b])
        assert type_of(apply(identity, relay.const(0))) == "int32"
        instance = relay.Function([], identity, relay.FuncType([b], b), [b])
        assert type_of(instance) == "fn [b] () -> fn (b) -> b"
        flag = relay.var("flag", "bool")
        choice = relay.Function([flag], relay.If(flag, identity, relay.Function([z], z)), relay.FuncType([b], b), [b])
        assert type_of(choice) == "fn [b] (bool) -> fn (b) -> b"

    def test_a_field_that_only_a_pattern_declares(self) -> None:
        box, a = relay.GlobalTypeVar("Box"), relay.TypeVar("a")
        boxed = relay.Constructor("Boxed", [a], box)
        x, y = relay.Var("x"), relay.var("y", shape=(2,))
        clause = relay.Clause(relay.PatternConstructor(boxed, [relay.PatternVar(y)]), y)
        mod = relay.IRModule({}, {box: relay.TypeData(box, [a], [boxed])})
        mod["main"] = relay.Function([x], relay.Match(boxed(x), [clause]))
        mod = relay.transform.InferType()(mod)
        assert str(mod["main"].checked_type) == "fn (Tensor[(2), float32]) -> Tensor[(2), float32]"

    def test_cells(self) -> None:
        text = "def @main(%x: int32) { let %f = fn (%r) { ref_read(%r) }; %f(ref(%x)) }"
        assert str(self.inferred(text)["main"].ret_type) == "int32"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("let %f = fn (%y) { %y }; %x", "unable to infer the type of variable %y"),
            ("let %f = fn (%y) { nn.relu(%y) }; (%f(%x), %f(1))", r"%f: argument 0 must be .* and is int32"),
            ("let %f = fn (%y) { %y }; (%f(%x), %f(%x, %x))", "%f takes 1 arguments and is called with 2"),
            ("let %f = fn (%y) { if (%y) { 1 } else { 2 } }; %f(%x)", r"let %f: fn \(Tensor.* is bound to fn \(bool\)"),
            ("let %f = fn (%g) { %g(%g) }; %x", "fn .* is|part of itself"),
            ("let %f = fn (%y) { (%y, %y).2 }; %f(%x)", "projection .2 of"),
        ],
    )
    def test_what_does_not_fit(self, text: str, message: str) -> None:
        with pytest.raises(TypeCheckError, match=message):
            self.inferred(f"def @main(%x: Tensor[(2), float32]) {{ {text} }}")

    def test_long_chains_of_functions(self) -> None:
        x = relay.var("x", "int32")
        body: Expr = x
        lets = []
        for _ in range(2_000):
            f, y = relay.var("f"), relay.var("y")
            lets.append((f, relay.Function([y], relay.negative(y))))
            body = f(body)
        for f, function in reversed(lets):
            body = relay.Let(f, function, body)
        assert type_of(relay.Function([x], body)) == "fn (int32) -> int32"


class TestTypeArguments:
    def test_of_operators_they_are_the_types_of_the_arguments(self) -> None:
        call = infer_type(relay.add(relay.var("x", shape=(2, 3)), relay.var("y", shape=(3,))))
        assert list(map(str, call.type_args)) == ["Tensor[(2, 3), float32]", "Tensor[(3), float32]"]
        assert infer_type(call) is call

    def test_of_functions_they_stand_for_the_parameters(self) -> None:
        mod = parse("def @id[A](%x: A) -> A { %x }\ndef @main(%x: float32) -> float32 { @id(%x) }")
        call = relay.transform.InferType()(mod)["main"].body
        assert structural_equal(call.type_args, [relay.TensorType(())])
        f = relay.Function([], relay.const(1))
        assert infer_type(relay.Call(f, [])).type_args == ()


class TestOneNode:
    def test_the_type_is_written_to_the_node_only(self) -> None:
        inner = relay.nn.relu(image)
        outer = relay.nn.batch_flatten(inner)
        assert str(relay.transform.InferTypeLocal(outer)) == "Tensor[(1, 192), float32]"
        assert str(outer.checked_type) == "Tensor[(1, 192), float32]"
        with pytest.raises(TypeCheckError, match="no checked_type yet"):
            _ = inner.checked_type

    def test_known_types_below_are_taken_as_they_are(self) -> None:
        inner = relay.nn.relu(relay.var("untyped"))
        inner._checked_type = relay.TensorType((2, 3))
        assert str(relay.transform.InferTypeLocal(relay.transpose(inner))) == "Tensor[(3, 2), float32]"


def test_unknown_annotations_say_nothing() -> None:
    x = relay.Var("x", relay.IncompleteType())
    let = relay.Let(x, relay.const(1), x + x)
    assert str(infer_type(let).var.type_annotation) == "int32"
    called = relay.Call(relay.Function([x], x), [relay.const(True)])
    assert str(infer_type(called).checked_type) == "bool"
    assert_structural_equal(relay.parse_expr("let %_ : _ = (); ()"), relay.parse_expr("let %_ = (); ()"))


class TestFunctionTypes:
    a, b, c = map(relay.TypeVar, "abc")
    list_of = relay.GlobalTypeVar("List")

    def test_are_equal_whatever_their_variables(self) -> None:
        types = [relay.FuncType([var, self.list_of(var)], relay.TupleType([var]), [var]) for var in (self.a, self.b)]
        assert types[0] == types[1]
        assert hash(types[0]) == hash(types[1])

    def test_differ_in_free_variables_and_in_the_places_of_bound_ones(self) -> None:
        a, b, c = self.a, self.b, self.c
        assert relay.FuncType([a], a) != relay.FuncType([b], b)
        assert relay.FuncType([a, c], a, [a]) != relay.FuncType([a, b], a, [a])
        assert relay.FuncType([a, b], a, [a, b]) != relay.FuncType([a, b], b, [a, b])
        assert relay.FuncType([a], a, [a]) != relay.FuncType([a], a, [a, b])

    def test_within_function_types(self) -> None:
        def nested(outer: relay.TypeVar, inner: relay.TypeVar, *fields: relay.TypeVar) -> relay.FuncType:
            return relay.FuncType([outer], relay.FuncType(fields, inner, [inner]), [outer])

        a, b, c = self.a, self.b, self.c
        assert nested(a, b, a, b) == nested(b, c, b, c) == nested(b, a, b, a)
        assert nested(a, b, a, b) != nested(a, b, b, a)

    def test_uint1_is_bool(self) -> None:
        assert relay.TensorType((2,), "uint1") == relay.TensorType((2,), "bool")
