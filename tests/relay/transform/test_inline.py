"""Inline: which functions take the place of their names, how, and which ones stay in the module."""

import pytest

from eqsat import relay
from eqsat.errors import PassError
from eqsat.relay import transform

from .compilers import assert_same, parse


def inlined(text):
    return transform.Inline()(parse(text))


def names(mod):
    return sorted(name.name_hint for name in mod.get_global_vars())


def test_calls_become_the_body():
    mod = inlined("""
def @double(%x: int32, Inline=1) -> int32 { %x + %x }
def @main(%x: int32) -> int32 { @double(@double(%x)) }""")
    assert names(mod) == ["main"]
    assert relay.interpreter.evaluate(mod, {"x": 3}) == 12


def test_a_chain_of_calls():
    mod = inlined("""
def @inner(%x: int32, Inline=1) -> int32 { %x + 1 }
def @outer(%x: int32, Inline=1) -> int32 { @inner(%x) * 2 }
def @main(%x: int32) -> int32 { @outer(%x) - @inner(%x) }""")
    assert names(mod) == ["main"]
    assert_same(mod, parse("def @main(%x: int32) -> int32 { (%x + 1) * 2 - (%x + 1) }"))


@pytest.mark.parametrize("mark", ['Compiler="c"', "Extern=1"])
def test_functions_of_external_compilers_are_called_themselves(mark):
    mod = inlined(f"""
def @theirs(%x: int32, Inline=1, {mark}) -> int32 {{ %x + 1 }}
def @main(%x: int32) -> int32 {{ @theirs(%x) * @theirs(%x) }}""")
    assert names(mod) == ["main"]
    left, right = (call.op for call in mod["main"].body.args)
    assert left is not right
    assert left.attrs.get("Inline") == right.attrs.get("Inline") == 1


def test_a_function_that_is_used_as_a_value():
    mod = inlined("""
def @up(%x: int32, Inline=1) -> int32 { %x + 1 }
def @down(%x: int32, Inline=1) -> int32 { %x - 1 }
def @main(%up: bool, %x: int32) -> int32 { let %f = if (%up) { @up } else { @down }; %f(%x) }""")
    assert names(mod) == ["main"]
    choice = mod["main"].body.value
    assert isinstance(choice.true_branch, relay.Function)
    assert isinstance(choice.false_branch, relay.Function)
    assert relay.interpreter.evaluate(mod, {"up": False, "x": 3}) == 2


def test_functions_that_nothing_refers_to_stay():
    text = (
        "def @first(%x: int32, Inline=1) -> int32 { %x }\ndef @second(%x: int32, Inline=1) -> int32 { @first(%x) + 1 }"
    )
    mod = inlined(text)
    assert names(mod) == ["second"]
    assert_same(mod["second"].without_attr("Inline"), parse("def @f(%x: int32) -> int32 { %x + 1 }")["f"])


@pytest.mark.parametrize(
    "text",
    [
        # the callee stays, so its caller does too
        """
def @kept(%x: int32) -> int32 { %x + 1 }
def @caller(%x: int32, Inline=1) -> int32 { @kept(%x) * 2 }
def @main(%x: int32) -> int32 { @caller(%x) }""",
        """
def @loop(%x: int32, Inline=1) -> int32 { if (%x < 1) { %x } else { @loop(%x - 1) } }
def @main(%x: int32) -> int32 { @loop(%x) }""",
        """
def @ping(%x: int32, Inline=1) -> int32 { if (%x < 1) { %x } else { @pong(%x - 1) } }
def @pong(%x: int32, Inline=1) -> int32 { @ping(%x) }
def @main(%x: int32) -> int32 { @ping(%x) }""",
    ],
)
def test_what_refers_to_functions_that_stay_is_not_inlined(text):
    assert_same(inlined(text), parse(text))


def test_another_number_of_arguments():
    module = relay.IRModule.from_expr(relay.Function([], relay.GlobalVar("one")(relay.const(2))))
    x = relay.var("x", "int32")
    module["one"] = relay.Function([x, x], x, attrs={"Inline": 1})
    with pytest.raises(PassError, match="@one has 2 parameters and is called with 1 arguments"):
        transform.Inline()(module)
