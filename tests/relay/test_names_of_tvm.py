"""Small names of TVM's API that programs for Relay use."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import relay
from eqsat.errors import ArgumentError, FileError
from eqsat.ir import assert_structural_equal
from eqsat.relay import testing, transform
from eqsat.relay.testing.temp_op_attr import TempOpAttr


def test_names_that_programs_for_relay_use() -> None:
    x = relay.var("x", shape=(2,))
    function = relay.Function([x], relay.nn.relu(x)).with_attr("Compiler", "mine")
    assert "Compiler" not in function.without_attr("Compiler").attrs
    module = eqsat.IRModule.from_expr(function)
    module.update_func(module.get_global_var("main"), function.without_attr("Compiler"))
    assert "Compiler" not in module["main"].attrs
    seen: list[relay.Expr] = []
    relay.analysis.post_order_visit(function.body, seen.append)
    assert seen[-1] is function.body
    assert np.array_equal(eqsat.nd.array([1.0]).asnumpy(), [1.0])
    assert isinstance(transform.PassContext.list_configs(), dict)
    assert eqsat.tir.IntImm is not None


def test_modules_of_tvm_that_tables_of_external_compilers_import() -> None:
    from eqsat.ir.container import Array
    from eqsat.ir.tensor_type import TensorType
    from eqsat.relay.analysis import analysis
    from eqsat.runtime import NDArray
    from eqsat.tir.expr import Any, SizeVar

    call = relay.nn.relu(relay.var("x", shape=(SizeVar("n", "int32"), 2)))
    typed = relay.transform.InferType()(eqsat.IRModule.from_expr(call))["main"].body
    assert isinstance(typed.op, eqsat.tir.op.Op)
    assert isinstance(typed.args, Array)
    assert isinstance(typed.checked_type, TensorType)
    assert isinstance(typed.checked_type.shape[0], Any)
    assert analysis.free_vars(call) == [call.args[0]]
    assert isinstance(eqsat.nd.array([1.0]), NDArray)


def test_modules_have_the_names_of_tvm() -> None:
    from eqsat import error
    from eqsat.ir.module import IRModule
    from eqsat.ir.op import register_op_attr
    from eqsat.ir.transform import PassContext, Sequential
    from eqsat.relay.expr_functor import ExprFunctor, ExprMutator, ExprVisitor
    from eqsat.relay.function import Function, FunctionWithFields
    from eqsat.relay.scope_builder import ScopeBuilder

    assert (error.TVMError, IRModule, Function) == (eqsat.EqsatError, relay.IRModule, relay.Function)
    assert (ExprFunctor, ExprMutator, ExprVisitor) == (relay.ExprFunctor, relay.ExprMutator, relay.ExprVisitor)
    assert (register_op_attr, PassContext) == (eqsat.ir.register_op_attr, transform.PassContext)
    assert (Sequential, ScopeBuilder) == (transform.Sequential, relay.ScopeBuilder)
    assert FunctionWithFields is relay.expr.FunctionWithFields
    with pytest.raises(error.OpError):
        relay.op.get("no such operator")


# ---- nodes


def test_a_node_is_the_same_as_itself_alone() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("x", shape=(2,))
    assert x.same_as(x)
    assert not x.same_as(y)
    assert relay.expr.VarWithFields(x, type_annotation=None).vid.same_as(x.vid)
    assert not x.vid.same_as(y.vid)
    module = eqsat.IRModule()
    assert module.same_as(module)
    assert not module.same_as(eqsat.IRModule())
    ty = relay.TensorType((2,))
    assert ty.same_as(ty)
    assert not ty.same_as(relay.TensorType((2,)))


@pytest.mark.parametrize("dtype", ["float16", np.float16, np.dtype("float16")])
def test_astype_is_a_cast(dtype: Any) -> None:
    x = relay.var("x", shape=(2,))
    assert_structural_equal(x.astype(dtype), relay.cast(x, "float16"))


def test_bind_replaces_variables() -> None:
    x, y = relay.var("x"), relay.var("y")
    one = relay.const(1.0)
    function = relay.Function([x, y], x + y)
    assert_structural_equal(relay.bind(function, {x: one}), relay.Function([y], one + y))
    assert_structural_equal(relay.bind(x + y, {y: x}), x + x)
    assert relay.bind(function, {}) is function


def test_what_is_free_in_bound_expressions_becomes_a_parameter() -> None:
    x, y, z = relay.var("x"), relay.var("y"), relay.var("z")
    bound: Any = relay.bind(relay.Function([x], x + y), {x: z * z})
    assert list(bound.params) == [z]


def test_bind_says_what_it_cannot_bind() -> None:
    x: Any = relay.var("x")
    with pytest.raises(eqsat.EqsatError, match=r"bind replaces variables by expressions, not .* by 1"):
        relay.bind(x, {x: 1})  # type: ignore[dict-item]
    with pytest.raises(eqsat.EqsatError, match="bind replaces variables"):
        relay.bind(x, {"x": x})  # type: ignore[dict-item]


def test_copies_with_other_fields_keep_what_is_not_given() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    typed: Any = testing.run_infer_type(relay.Function([x, y], relay.nn.leaky_relu(x, 0.5)))
    call, second = typed.body, typed.params[1]
    copy = relay.expr.CallWithFields(call, args=[second])
    assert (copy.op, copy.attrs, copy.args) == (call.op, call.attrs, (second,))
    assert copy.checked_type == call.checked_type
    assert relay.expr.CallWithFields(call, call.op, call.args) is call
    assert relay.function.FunctionWithFields(typed, body=copy).body is copy
    let = relay.Let(x, y, x)
    assert relay.expr.LetWithFields(let, variable=y).var is y
    assert relay.expr.TupleGetItemWithFields(relay.TupleGetItem(x, 1), index=0).index == 0
    assert relay.expr.TupleWithFields(relay.Tuple([x]), [y, y]).fields == (y, y)
    assert relay.expr.VarWithFields(x, type_annotation=relay.TensorType((3,))).vid is x.vid
    assert relay.expr.VarWithFields(x, virtual_device=eqsat.cpu()).virtual_device_ == eqsat.cpu()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: relay.expr.CallWithFields(x), "CallWithFields takes a Call, not"),
        (lambda x: relay.expr.CallWithFields(x + x, arguments=[x]), r"the fields of a Call are \['op', 'args'"),
        (lambda x: relay.expr.TupleWithFields(relay.Tuple([x]), [x], None, None), "the fields of a Tuple are"),
    ],
)
def test_fields_that_there_are_not_are_refused(change: Any, message: str) -> None:
    with pytest.raises(eqsat.EqsatError, match=message):
        change(relay.var("x"))


# ---- attributes and integers


def test_attributes_of_functions_and_modules_are_set_on_copies() -> None:
    x = relay.var("x")
    function = relay.Function([x], x).with_attrs({"a": 1, "b": "c"})
    assert (function.attrs.a, function.attrs["b"]) == (1, "c")
    module = eqsat.IRModule.from_expr(function)
    changed = module.with_attr("a", 1).with_attrs({"b": 2, "c": 3}).without_attr("c")
    assert [changed.get_attr(key) for key in "abc"] == [1, 2, None]
    assert module.get_attr("a") is None
    assert changed["main"] is function


def test_attributes_are_read_by_kind() -> None:
    x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3))
    attrs = relay.nn.conv2d(x, w, strides=(2, 1), channels=4).attrs
    assert (attrs.get_int("channels"), attrs.get_str("data_layout"), attrs.get_int_tuple("strides")) == (
        4,
        "NCHW",
        (2, 1),
    )
    for read in (attrs.get_int, attrs.get_int_tuple):
        with pytest.raises(eqsat.EqsatError, match=r"nn\.conv2d: attribute 'data_layout' is not"):
            read("data_layout")
    with pytest.raises(eqsat.EqsatError, match="is no sequence of integers"):
        eqsat.ir.make_node("DictAttrs", a=[1, "x"]).get_int_tuple("a")


def test_dimensions_and_integers_have_a_value() -> None:
    x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3))
    call: Any = testing.run_infer_type(relay.nn.conv2d(x, w, strides=(2, 1), channels=4))
    assert [dim.value for dim in call.checked_type.shape] == [1, 4, 3, 6]
    assert call.attrs.strides[0].value == call.attrs.strides[0] == 2
    assert isinstance(call.checked_type.shape[0], eqsat.tir.IntImm)
    assert str(call.checked_type) == "Tensor[(1, 4, 3, 6), float32]"
    assert call.checked_type.shape[1].dtype == "int32"


def test_a_constant_dimension_is_of_its_dtype() -> None:
    x = relay.var("x", shape=(eqsat.tir.const(10, "int64"), eqsat.tir.const(1)))
    assert [(int(dim), dim.dtype) for dim in x.type_annotation.shape] == [(10, "int64"), (1, "int32")]
    for value, dtype in ((1.5, "int32"), (1, "float32")):
        with pytest.raises(eqsat.EqsatError, match="const makes integers of an integer dtype, not 1"):
            eqsat.tir.const(value, dtype)  # type: ignore[arg-type]


def test_items_of_the_tables_of_a_module_are_lists() -> None:
    text = "type Tree { Leaf }  def @main(%x: int32) { %x }  def @other(%x: int32) { @main(%x) }"
    module = relay.parse(f'#[version = "0.0.5"]\n{text}')
    assert module.functions.items()[1] == (module.get_global_var("other"), module["other"])
    assert module.type_definitions.items()[0][1].constructors[0].name_hint == "Leaf"
    assert dict(module.functions) == module.functions


def test_an_integer_with_a_value_is_the_integer_it_is() -> None:
    x = relay.var("x", shape=(2, 3))
    assert x.type_annotation is not None
    by_type, by_hand = relay.reshape(x, x.type_annotation.shape), relay.reshape(x, [2, 3])  # type: ignore[attr-defined]
    assert_structural_equal(by_type, by_hand)
    assert by_type.attrs == by_hand.attrs
    assert by_type.astext() == by_hand.astext()
    assert relay.TensorType((2, 3)) == pickle.loads(pickle.dumps(relay.TensorType((2, 3))))
    assert pickle.loads(pickle.dumps(eqsat.tir.IntImm("int64", 3))).dtype == "int64"


# ---- operators


def test_attributes_of_operators_are_set_and_unset() -> None:
    log = relay.op.get("log")
    assert (log.num_inputs, relay.op.get("einsum").num_inputs) == (1, 1)
    assert not log.has_attr("mine")
    log.set_attr("mine", 1)
    assert log.has_attr("mine")
    assert log.get_attr("mine") == 1
    with TempOpAttr("log", "mine", 2), TempOpAttr("log", "other", 3):
        assert (log.get_attr("mine"), log.get_attr("other")) == (2, 3)
    assert log.get_attr("mine") == 1
    log.reset_attr("mine")
    log.reset_attr("mine")
    assert not log.has_attr("mine") | log.has_attr("other")
    assert "log" in relay.Op.list_op_names()


# ---- node maps, arrays


def test_a_node_map_has_a_default_for_what_took_no_part() -> None:
    from eqsat.relay.dataflow_pattern import DFPatternCallback, is_op, rewrite, wildcard

    class Doubles(DFPatternCallback):
        def __init__(self) -> None:
            super().__init__(rewrite_once=True)
            self.x, self.y = wildcard(), wildcard()
            self.pattern = is_op("nn.relu")(self.x) | is_op("tanh")(self.y)

        def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
            return node_map.get(self.x, default=[None])[0] or node_map.get(self.y)[0] * relay.const(2.0)

    x = relay.var("x", shape=(2,))
    assert rewrite(Doubles(), relay.nn.relu(x)) is x
    assert_structural_equal(rewrite(Doubles(), relay.tanh(x)), x * relay.const(2.0))


def test_arrays_are_kept_by_a_cpu() -> None:
    assert eqsat.nd.array([1, 2], eqsat.cpu(0)).device == eqsat.device("cpu")
    assert str(eqsat.nd.cpu(1)) == "cpu(1)"
    with pytest.raises(eqsat.EqsatError, match="there is no device 'cuda'"):
        eqsat.device("cuda", 0)
    with pytest.raises(eqsat.EqsatError, match="a device is what cpu"):
        eqsat.nd.array([1], "cpu")  # type: ignore[arg-type]


# ---- modules


def test_spans_are_the_places_of_the_text() -> None:
    x = relay.var("x", shape=(2,))
    module = eqsat.IRModule.from_expr(relay.nn.relu(x + x)).with_attr("mine", 1)
    annotated = transform.AnnotateSpans()(module)
    assert_structural_equal(annotated, transform.InferType()(module))
    assert annotated.get_attr("mine") == 1
    span = annotated["main"].body.span
    text = module.astext().splitlines()[span.line - 1]
    assert (span.source_name, text[span.column - 1 :].split("(")[0]) == ("GeneratedSource", "nn.relu")


def test_calls_of_operators_are_counted_in_all_functions() -> None:
    module = eqsat.parser.parse("""#[version = "0.0.5"]
    def @other(%x: float32) { add(%x, %x) }
    def @main(%x: float32) { let %f = fn (%y: float32) { negative(%y) }; add(%f(%x), @other(%x)) }
    """)
    assert relay.analysis.list_op_freqs(module) == {"add": 2, "negative": 1}


def test_support_levels_and_their_default() -> None:
    levels = {name: relay.op.get(name).support_level for name in ("add", "abs", "nn.conv2d", "nn.swish")}
    assert levels == {"add": 1, "abs": 3, "nn.conv2d": 2, "nn.swish": 10}


def test_adding_to_a_module_by_the_private_name() -> None:
    mod = relay.IRModule()
    function = relay.Function([], relay.const(1))
    mod._add("main", function)
    mod._add("main", function, update=True)
    with pytest.raises(ArgumentError, match="the module has main already"):
        mod._add("main", function, False)


def test_symbolic_dimensions_of_te() -> None:
    n = eqsat.te.var("n")
    assert relay.TensorType((n, 2)) == relay.TensorType((eqsat.tir.Var("n"), 2))


def test_download_keeps_what_it_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "given.txt"
    source.write_text("first")
    monkeypatch.setenv("TEST_DATA_ROOT_PATH", str(tmp_path / "kept"))
    fetched = eqsat.contrib.download.download_testdata(source.as_uri(), "file.txt", module=["data", "texts"])
    assert fetched == str(tmp_path / "kept" / "data" / "texts" / "file.txt")
    source.write_text("second")
    assert (
        Path(eqsat.contrib.download.download_testdata(source.as_uri(), "file.txt", ["data", "texts"])).read_text()
        == "first"
    )
    eqsat.contrib.download.download(source.as_uri(), fetched, overwrite=True)
    assert Path(fetched).read_text() == "second"
    with pytest.raises(FileError, match="cannot be fetched"):
        eqsat.contrib.download.download((tmp_path / "none").as_uri(), tmp_path / "other")
    assert not (tmp_path / "other").exists()
