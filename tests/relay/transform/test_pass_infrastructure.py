"""Passes, contexts and sequences of passes."""

import pytest

import eqsat
from eqsat import relay
from eqsat.errors import ArgumentError, PassError
from eqsat.relay import transform

from .compilers import called_ops, module, var


def _tanh_of(function):
    return relay.Function(function.params, relay.tanh(function.body))


@transform.function_pass(opt_level=1)
def add_tanh(function, mod, context):
    return _tanh_of(function)


@eqsat.transform.module_pass(opt_level=3, name="AddSqrt")
def add_sqrt(mod, context):
    function = mod["main"]
    mod["main"] = relay.Function(function.params, relay.sqrt(function.body))
    return mod


def _ops(mod):
    return called_ops(mod["main"])


def test_a_function_pass_changes_every_function_and_infers_types():
    mod = module(var("x", 2))
    mod["other"] = mod["main"]
    result = add_tanh(mod)
    assert _ops(result) == called_ops(result["other"]) == ["tanh"]
    assert result["main"].body.checked_type == relay.TensorType((2,), "float32")


def test_the_module_given_is_not_changed():
    mod = module(var("x", 2))
    add_sqrt(mod)
    add_tanh(mod)
    assert _ops(mod) == []


@pytest.mark.parametrize("attrs", [{"Compiler": "t"}, {"Extern": 1}, {"SkipOptimization": 1}])
def test_a_function_pass_leaves_functions_of_others_alone(attrs):
    mod = module(var("x", 2))
    mod["other"] = mod["main"].with_attr(attrs)
    assert called_ops(add_tanh(mod)["other"]) == []


def test_a_sequence_runs_passes_in_order_up_to_the_level_of_the_context():
    passes = eqsat.transform.Sequential([add_tanh, add_sqrt])
    mod = module(var("x", 2))
    assert _ops(passes(mod)) == ["tanh"]
    with eqsat.transform.PassContext(opt_level=3):
        assert _ops(passes(mod)) == ["tanh", "sqrt"]
    with eqsat.transform.PassContext(opt_level=0):
        assert _ops(passes(mod)) == []


def test_passes_are_required_and_disabled_by_name():
    passes = transform.Sequential([add_tanh, add_sqrt])
    with transform.PassContext(opt_level=0, required_pass=["AddSqrt"]):
        assert _ops(passes(module(var("x", 2)))) == ["sqrt"]
    with transform.PassContext(opt_level=3, disabled_pass=["AddSqrt"]):
        assert _ops(passes(module(var("x", 2)))) == ["tanh"]


def test_contexts_nest():
    with transform.PassContext(opt_level=3), transform.PassContext(opt_level=0):
        assert transform.PassContext.current().opt_level == 0
    assert transform.PassContext.current().opt_level == 2


def test_a_pass_names_passes_that_run_before_it():
    seen = []

    @transform.function_pass(opt_level=0, required=["ToGraphNormalForm"])
    def look(function, mod, context):
        seen.append(type(function.body))
        return function

    x, v = var("x", 2), relay.var("v")
    transform.Sequential([look])(module(relay.Let(v, relay.tanh(x), v)))
    assert seen == [relay.Call]


def test_a_class_makes_passes_with_state():
    @transform.function_pass(opt_level=0)
    class Repeat:
        """Adds tanh some times."""

        def __init__(self, times):
            self.times = times

        def transform_function(self, function, mod, context):
            for _ in range(self.times):
                function = _tanh_of(function)
            return function

    repeat = Repeat(3)
    assert repeat.times == 3
    assert repeat.info.name == "Repeat"
    assert Repeat.__doc__ == "Adds tanh some times."
    assert _ops(repeat(module(var("x", 2)))) == ["tanh"] * 3


def test_the_context_tells_passes_their_options():
    @transform.module_pass(opt_level=0)
    def read(mod, context):
        seen.append(context.config["relay.FuseOps.max_depth"])
        return mod

    seen = []
    with transform.PassContext(config={"relay.FuseOps.max_depth": 7}):
        read(module(var("x", 2)))
    assert seen == [7]


class TestBadInput:
    def test_a_pass_takes_a_module(self):
        with pytest.raises(ArgumentError, match=r"InferType takes an IRModule.*IRModule\.from_expr"):
            transform.InferType()(var("x", 2))

    def test_a_module_pass_is_of_its_class_and_tells_of_itself(self):
        made = transform.module_pass(lambda mod, context: mod, opt_level=2, name="made", required=["InferType"])
        assert isinstance(made, eqsat.transform.ModulePass)
        told = "pass name: made, opt_level: 2, required passes: [InferType]"
        assert str(made.info) == f"The meta data of the pass - {told}"

    def test_a_module_pass_gives_a_module(self):
        forgetful = transform.module_pass(lambda mod, context: None, opt_level=0, name="forgetful")
        with pytest.raises(PassError, match="forgetful gave None"):
            forgetful(module(var("x", 2)))

    def test_a_function_pass_gives_functions(self):
        wrong = transform.function_pass(lambda function, mod, context: function.body, opt_level=0, name="wrong")
        with pytest.raises(PassError, match=r"wrong made .* of function 'main'"):
            wrong(module(var("x", 2)))

    def test_a_pass_has_a_level(self):
        with pytest.raises(ArgumentError, match="opt_level"):
            transform.function_pass(lambda function, mod, context: function)

    def test_a_pass_class_has_its_method(self):
        with pytest.raises(ArgumentError, match="Empty has no method transform_module"):

            @transform.module_pass(opt_level=0)
            class Empty:
                pass

    def test_a_sequence_takes_passes_not_their_makers(self):
        with pytest.raises(ArgumentError, match="call it to make the pass"):
            transform.Sequential([transform.InferType])

    def test_unknown_options_are_refused(self):
        with pytest.raises(PassError, match=r"no pass has the option 'relay.FuseOps.depth'"):
            transform.PassContext(config={"relay.FuseOps.depth": 7})

    def test_options_have_their_type(self):
        with pytest.raises(PassError, match="max_depth' takes a value of type int"):
            transform.PassContext(config={"relay.FuseOps.max_depth": "7"})

    def test_required_passes_are_known(self):
        nothing = transform.module_pass(lambda mod, context: mod, opt_level=0, name="nothing", required=["Nonsense"])
        with pytest.raises(PassError, match="'Nonsense'"):
            transform.Sequential([nothing])(module(var("x", 2)))
