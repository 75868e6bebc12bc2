"""Annotated regions as functions of the module."""

import numpy as np
import pytest

import eqsat
from eqsat import relay
from eqsat.errors import ArgumentError, PassError
from eqsat.relay import transform

from .compilers import assert_same_values, begin, called_ops, end, external, functions_in, module, parse, takes, var

PIPELINE_OPS = ("nn.conv2d", "nn.batch_norm", "nn.relu", "concatenate", "split", "add")


def partition(mod, target="t", merge=True, mod_name="default", **options):
    passes = [transform.AnnotateTarget(target)]
    passes += [transform.MergeCompilerRegions()] if merge else []
    passes += [transform.PartitionGraph(mod_name, **options)]
    return transform.Sequential(passes)(mod)


def test_extern_ccompiler_default_ops():
    """Operators in no region stay, and can be fused afterwards."""
    x, y = var("x", 8, 8), var("y", 8, 8)
    mod = module(relay.concatenate((relay.log(relay.add(x, y)), relay.exp(relay.add(x, y))), 0))
    with takes("ccompiler", "add"):
        result = partition(mod, "ccompiler", merge=False)
    assert external(result) == ["tvmgen_default_ccompiler_main_0", "tvmgen_default_ccompiler_main_2"]
    function = result["tvmgen_default_ccompiler_main_0"]
    assert dict(function.attrs) == {
        "global_symbol": "tvmgen_default_ccompiler_main_0",
        "Primitive": 1,
        "Compiler": "ccompiler",
        "Inline": 1,
    }
    assert [param.name_hint for param in function.params] == ["ccompiler_0_i0", "ccompiler_0_i1"]
    assert function.ret_type == relay.TensorType((8, 8), "float32")
    fused = transform.FuseOps()(result)
    (inner,) = functions_in(fused["main"].body)
    assert called_ops(inner) == ["log", "exp", "concatenate"]
    assert_same_values(mod, result)


def by_hand(target, inputs, build):
    """One region: ``build`` of the inputs, each through a begin."""
    return end(build(*(begin(value, target) for value in inputs)), target)


def test_multi_node_compiler():
    """Two hand-annotated regions of three operators, and what is left outside, compute what the plain graph does."""
    x, weights = var("x", 10, 10), [var(f"w{index}", 10, 10) for index in range(8)]

    def branch(x, a, b, c):
        return relay.multiply(relay.subtract(relay.add(x, a), b), c)

    def net(region):
        left, right = (region([x, *weights[start : start + 3]], branch) for start in (0, 3))
        rest = relay.subtract(relay.add(x, weights[6]), weights[7])
        return module(relay.concatenate((left, right, rest), 0), x, *weights)

    plain = net(lambda inputs, build: build(*inputs))
    result = transform.PartitionGraph()(net(lambda inputs, build: by_hand("ccompiler", inputs, build)))
    assert [called_ops(result[name]) for name in external(result)] == [["add", "subtract", "multiply"]] * 2
    assert called_ops(result["main"]) == ["add", "subtract", "concatenate"]
    assert_same_values(plain, result)


def test_extern_ccompiler_single_op():
    x, y = var("x", 8, 8), var("y", 8, 8)
    mod = module(relay.add(x, y))
    with takes("ccompiler", "add"):
        result = partition(mod, "ccompiler")
    assert called_ops(result["main"]) == []
    assert_same_values(mod, result)


def test_extern_ccompiler():
    x, y = var("x", 2, 2), var("y", 2, 2)
    mod = module(relay.concatenate((relay.subtract(relay.add(x, x), relay.multiply(y, y)), y), 1))
    with takes("ccompiler", "add", "subtract", "multiply"):
        result = partition(mod, "ccompiler")
    assert called_ops(result["main"]) == ["concatenate"]
    assert_same_values(mod, result)


def test_extern_dnnl():
    """Depthwise convolutions and their sum as one region of two inputs."""
    x, weight = var("x", 1, 8, 6, 6), var("w", 8, 1, 3, 3)
    attrs = {"channels": 8, "kernel_size": (3, 3), "padding": (1, 1), "groups": 8}
    first = relay.nn.conv2d(x, weight, **attrs)
    mod = module(relay.add(first, relay.nn.conv2d(first, weight, **attrs)))
    with takes("dnnl", "nn.conv2d", "add"):
        result = partition(mod, "dnnl")
    (name,) = external(result)
    assert called_ops(result[name]) == ["nn.conv2d", "nn.conv2d", "add"]
    assert len(result[name].params) == 2
    assert_same_values(mod, result)


def test_tuple_output_exec():
    """A region whose result is a tuple of two values."""
    a, b, c = var("a", 10, 10), var("b", 10, 10), var("c", 10, 10)
    left, right = relay.add(begin(a), begin(b)), relay.add(begin(b), begin(c))
    annotated = relay.Tuple([end(left), end(right)])
    plain = module(relay.Tuple([relay.add(a, b), relay.add(b, c)]), a, b, c)
    assert_same_values(plain, transform.PartitionGraph()(module(annotated, a, b, c)))


def test_preserve_type_import():
    """Types that the module defines are there afterwards."""
    text = """
type List[A] { Cons(A, List[A]), Nil, }
def @main(%x: Tensor[(2), float32]) -> List[Tensor[(2), float32]] { Cons(abs(%x), Nil()) }"""
    mod = parse(text)
    with takes("t", "abs"):
        result = partition(mod)
    assert list(map(str, result.type_definitions)) == ["List"]
    assert external(result) == ["tvmgen_default_t_main_0"]
    assert str(result["main"].body.checked_type) == "List[Tensor[(2), float32]]"
    made = relay.interpreter.evaluate(result, {"x": np.array([-1, 2], "float32")})
    np.testing.assert_array_equal(made.fields[0], [1, 2])


def test_extern_compiler_sanitized_ops():
    x = var("x", 8, 8)
    with takes("unsanitary-name++", "abs"):
        result = partition(module(relay.abs(x)), "unsanitary-name++")
    assert external(result) == ["tvmgen_default_unsanitary_name___main_0"]
    (function,) = [result[name] for name in external(result)]
    assert function.attrs["Compiler"] == "unsanitary-name++"
    assert function.params[0].name_hint == "unsanitary-name++_0_i0"


@pytest.mark.parametrize(
    ("mod_name", "prefix"), [("net", "tvmgen_net"), ("", "tvmgen"), (None, "tvmgen"), ("a.b", "tvmgen_a_b")]
)
def test_module_names(mod_name, prefix):
    with takes("t", "abs"):
        result = partition(module(relay.abs(var("x", 2))), mod_name=mod_name)
    assert external(result) == [f"{prefix}_t_main_0"]


def test_extern_ccompiler_multiple_functions():
    """Regions are numbered in each function anew."""
    mod = module(relay.abs(relay.exp(relay.abs(var("x", 2)))))
    mod["subfunction"] = mod["main"]
    with takes("t", "abs"):
        result = partition(mod)
    assert external(result) == [
        f"tvmgen_default_t_{name}_{number}" for name in ("main", "subfunction") for number in (0, 1)
    ]


def _lifting():
    data, gamma, beta = var("data", 1, 16, 224, 224), var("gamma", 16), var("beta", 16)
    weight, mean, variance = var("weight", 16, 16, 3, 3), var("mean", 16), var("var", 16)
    norm = relay.nn.batch_norm(relay.nn.conv2d(data, weight, padding=(1, 1)), gamma, beta, mean, variance)
    return module(relay.nn.relu(norm[0]))


def test_function_lifting():
    """Region numbers have gaps where regions were merged away."""
    x, y = var("x", 4), var("y", 4)
    first = relay.add(relay.nn.relu(x), y)
    mod = module(relay.nn.relu(relay.add(relay.exp(first), y)), x, y)
    with takes("t", "nn.relu", "add"):
        result = partition(mod)
    assert external(result) == ["tvmgen_default_t_main_0", "tvmgen_default_t_main_2"]
    assert called_ops(result["main"]) == ["exp"]


def test_function_lifting_inline():
    """Inline leaves no function of the module but main; the call is of the function itself."""
    mod = _lifting()
    with takes("t", "nn.batch_norm"):
        result = partition(mod)
    inlined = transform.Inline()(result)
    assert [variable.name_hint for variable in inlined.get_global_vars()] == ["main"]
    (function,) = functions_in(inlined["main"].body)
    assert function.attrs["Compiler"] == "t"


def test_constant_propagation():
    """A constant becomes part of the region's function."""
    ones = relay.const(np.ones((8, 8), "float32"))
    mod = module(relay.log(relay.add(ones, var("y", 8, 8))))
    with takes("t", "add"):
        bound, passed = partition(mod), partition(mod, bind_constants=False)
    (name,) = external(bound)
    assert [param.name_hint for param in bound[name].params] == ["t_0_i1"]
    assert len(bound["main"].body.args[0].args) == 1
    assert [param.name_hint for param in passed[name].params] == ["t_0_i0", "t_0_i1"]
    assert_same_values(mod, bound)
    assert_same_values(mod, passed)


def test_multiple_outputs():
    """A region with several results gives a tuple, projected in the caller."""
    data = var("data", 1, 16, 8, 8)
    weight = var("weight", 16, 16, 3, 3)
    stats = [var(name, 16) for name in ("gamma", "beta", "mean", "var")]
    norm = relay.nn.batch_norm(relay.nn.conv2d(data, weight, padding=(1, 1)), *stats)
    mod = module(relay.Tuple([relay.nn.relu(norm[0]), norm[1], norm[2]]))
    with takes("t", "nn.conv2d", "nn.batch_norm", "nn.relu"):
        result = partition(mod)
    (name,) = external(result)
    assert [type(node).__name__ for node in result["main"].body.fields] == ["TupleGetItem"] * 3
    assert [field.index for field in result["main"].body.fields] == [0, 1, 2]
    assert len({field.tuple_value for field in result["main"].body.fields}) == 1
    assert isinstance(result[name].body, relay.Tuple)
    assert_same_values(mod, result)


def test_mixed_single_multiple_outputs():
    x = var("x", 10, 10)
    relu = relay.nn.relu(x)
    mod = module(relay.Tuple([relay.sqrt(relu), relay.add(relay.tanh(relu), relu)]))
    with takes("t", "nn.relu", "tanh", "add"):
        result = partition(mod)
    (name,) = external(result)
    assert len(result[name].body.fields) == 2
    assert_same_values(mod, result)


@pytest.mark.parametrize(("merge", "sizes"), [(True, [3]), (False, [1, 1, 1])])
def test_multiple_use_of_an_output(merge, sizes):
    x, y = var("x", 8, 8), var("y", 8, 8)
    total = relay.subtract(x, y)
    mod = module(relay.multiply(relay.nn.relu(total), total), x, y)
    with takes("t", "subtract", "nn.relu", "multiply"):
        result = partition(mod, merge=merge)
    assert [len(called_ops(result[name])) for name in external(result)] == sizes
    assert_same_values(mod, result)


def test_duplicate_outputs():
    """A result used three times is one output."""
    data = var("data", 10, 10)
    total = relay.abs(data)
    mod = module(relay.Tuple([relay.sqrt(total), relay.tanh(total), total]))
    with takes("t", "abs"):
        result = transform.PartitionGraph()(transform.AnnotateTarget("t", include_non_call_ops=False)(mod))
    (name,) = external(result)
    assert not isinstance(result[name].body, relay.Tuple)
    assert_same_values(mod, result)


def test_duplicate_merge_and_tuplegetitem():
    data, stats = var("data", 1, 16, 8, 8), [var(f"s{index}", 16) for index in range(4)]
    norm = relay.nn.batch_norm(data, *stats)
    mod = module(relay.Tuple([relay.nn.relu(norm[0]), norm[1], norm[0]]))
    with takes("t", "nn.batch_norm", "nn.relu"):
        result = partition(mod)
    assert_same_values(mod, result)
    projections = [node for node in result["main"].body.fields if isinstance(node, relay.TupleGetItem)]
    assert len(projections) == len({node.index for node in projections})


def test_constant_tuples():
    """Tuples of constants become part of the function too."""
    ones = relay.const(np.ones((2, 2), "float32"))
    x = var("x", 2, 2)
    mod = module(relay.nn.dense(x, relay.concatenate((ones, ones), 0)))
    with takes("t", "concatenate"):
        annotated = transform.AnnotateTarget("t", include_non_call_ops=False)(mod)
    result = transform.PartitionGraph()(annotated)
    (name,) = external(result)
    assert result[name].params == ()


def test_flatten_tuple_output():
    """A region that ends in a tuple gives its fields one by one."""
    x = var("x", 4, 4)
    mod = module(relay.Tuple([relay.nn.relu(x), relay.tanh(x)]))
    with takes("t", "nn.relu", "tanh"):
        result = partition(mod)
    assert isinstance(result["main"].body, relay.Tuple)
    assert external(result) == ["tvmgen_default_t_main_0", "tvmgen_default_t_main_1"]
    assert_same_values(mod, result)


def test_extern_opt():
    """A registered function may optimize what its compiler gets."""
    y0, y1 = relay.const(np.ones(8, "float32")), relay.const(np.full(8, 2.0, "float32"))
    mod = module(relay.log(relay.add(y0, relay.add(y1, y1))))
    eqsat.register_func("relay.ext.t.optimize", lambda module: transform.FoldConstant()(module))
    try:
        with takes("t", "add"):
            result = partition(mod)
        eqsat.register_func("relay.ext.t.optimize", lambda module: None, override=True)
        with takes("t", "add"), pytest.raises(PassError, match=r"relay\.ext\.t\.optimize must give a module"):
            partition(mod)
    finally:
        eqsat.registry.remove_global_func("relay.ext.t.optimize")
    (name,) = external(result)
    assert result[name].body.data.numpy().tolist() == [5.0] * 8
    assert result[name].attrs["Compiler"] == "t"


@pytest.mark.parametrize("bind", [True, False])
def test_not_bind_constant(bind):
    x, weight = var("x", 1, 3, 8, 8), relay.const(np.ones((4, 3, 3, 3), "float32"))
    bias = relay.const(np.ones((4, 1, 1), "float32"))
    body = relay.nn.relu(relay.add(relay.nn.conv2d(x, weight), bias))
    pattern = relay.dataflow_pattern
    conv = pattern.is_op("nn.conv2d")(pattern.wildcard(), pattern.wildcard())
    table = [("t.conv", pattern.is_op("nn.relu")(pattern.is_op("add")(conv, pattern.wildcard())))]
    result = partition(transform.MergeComposite(table)(module(body)), bind_constants=bind)
    (name,) = external(result)
    assert len(result[name].params) == (1 if bind else 3)


def test_two_reads_of_one_value_are_one_parameter():
    x = var("x", 4)
    with takes("t", "add", "multiply"):
        result = partition(module(relay.multiply(relay.add(x, x), x)))
    (name,) = external(result)
    assert [param.name_hint for param in result[name].params] == ["t_0_i0"]


def test_projections_stay_in_the_region():
    x = var("x", 4, 4)
    halves = relay.split(x, 2, 0)
    mod = module(relay.sqrt(relay.add(halves[0], halves[1])))
    with takes("t", *PIPELINE_OPS):
        result = partition(mod)
    assert [called_ops(result[name]) for name in external(result)] == [["split", "add"]]
    assert_same_values(mod, result)


def test_names_do_not_clash_with_functions_there_are():
    mod = module(relay.abs(var("x", 2)))
    mod["t_main_0"] = mod["tvmgen_default_t_main_0"] = module(var("x", 2))["main"]
    with takes("t", "abs"):
        result = partition(mod)
    assert external(result) == ["tvmgen_default_t_main_0_1"]


def test_partitioning_twice_keeps_the_names():
    """Relay mangles the names of the first run again, or dies where they meet new ones."""
    mod = module(relay.tanh(relay.abs(var("x", 2))))
    with takes("t", "abs"):
        once = partition(mod)
    with takes("t", "tanh"):
        twice = partition(once)
    assert external(twice) == ["tvmgen_default_t_main_0", "tvmgen_default_t_main_0_1"]
    assert_same_values(mod, twice)


def test_types_and_globals_survive():
    """Functions of the module that no region touches stay as they are."""
    mod = parse(
        """def @other(%a: Tensor[(2), float32]) -> Tensor[(2), float32] { exp(%a) }
        def @main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { abs(@other(%x)) }"""
    )
    with takes("t", "abs"):
        result = partition(mod)
    assert called_ops(result["other"]) == ["exp"]
    assert_same_values(mod, result)


def test_regions_are_typed_once():
    """Types are inferred as often for many regions as for one."""
    from eqsat.relay import infer

    def count(regions):
        x = y = var("x", 2)
        for _ in range(regions):
            y = relay.sqrt(relay.abs(y))
        calls = []
        run = infer.infer_types
        with takes("t", "abs"), pytest.MonkeyPatch.context() as patch:
            annotated = transform.AnnotateTarget("t")(module(y, x))
            patch.setattr(infer, "infer_types", lambda *args: calls.append(args) or run(*args))
            result = transform.PartitionGraph()(annotated)
        assert len(external(result)) == regions
        return len(calls)

    assert count(40) - count(10) == 30  # one each for the functions made


class TestBadAnnotations:
    def test_a_begin_without_end(self):
        mod = module(relay.tanh(begin(var("x", 2))))
        with pytest.raises(PassError, match=r"tanh is in a region of target 't'.*without compiler_end"):
            transform.PartitionGraph()(mod)

    def test_a_begin_before_a_begin(self):
        mod = module(end(relay.tanh(begin(begin(var("x", 2))))))
        with pytest.raises(PassError, match=r"annotation\.compiler_begin.*without compiler_end"):
            transform.PartitionGraph()(mod)

    def test_an_end_without_begin(self):
        with pytest.raises(PassError, match="Cannot find the corresponding region"):
            transform.PartitionGraph()(module(end(relay.tanh(var("x", 2)))))

    def test_a_value_used_on_both_sides_without_end(self):
        inner = relay.tanh(begin(var("x", 2)))
        mod = module(relay.Tuple([end(inner), relay.RefCreate(inner)]))
        with pytest.raises(PassError, match="used by a RefCreate outside of it without compiler_end"):
            transform.PartitionGraph()(mod)

    def test_module_names_are_ascii(self):
        with pytest.raises(ArgumentError, match="must be ASCII"):
            transform.PartitionGraph("naïve")

    def test_nothing_is_changed(self):
        mod = module(relay.tanh(begin(var("x", 2))))
        text = str(mod)
        with pytest.raises(PassError):
            transform.PartitionGraph()(mod)
        assert str(mod) == text
