"""What is of a wrong kind is an error of ours that names it, whichever function is given it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import pytest

import eqsat
import eqsat.onnx
from eqsat import relay, report_page, rules
from eqsat.errors import EqsatError
from eqsat.relay.dataflow_pattern import is_op, partition, rewrite, wildcard
from eqsat.rules.prove import prove
from eqsat.rules.verify import verify

WRONG: Any = 42
x = relay.var("x", shape=(2, 3))
graph = relay.nn.relu(relay.nn.relu(x))
few = [*rules.algebra][:2]
model = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["": 17]> g (float[3] x) => (float[3] y) { a = Relu (x) y = Relu (a) }'
)


@pytest.mark.parametrize(
    "call",
    [
        lambda: eqsat.saturate(WRONG),
        lambda: eqsat.saturate(graph, rules=WRONG),
        lambda: eqsat.saturate(graph, rules=[WRONG]),
        lambda: eqsat.saturate(graph, limits=WRONG),
        lambda: eqsat.extract(WRONG),
        lambda: eqsat.extract(eqsat.saturate(graph, few), cost_model=WRONG),
        lambda: eqsat.saturate(graph, few).why_not(WRONG),
        lambda: eqsat.optimize(WRONG),
        lambda: eqsat.compare_orders(graph, few, orders=WRONG / 4),
        lambda: eqsat.compare_orders(graph, few, random_runs=-WRONG),
        lambda: eqsat.variants(graph, count="42"),  # type: ignore[arg-type]
        lambda: eqsat.equal(graph, WRONG),
        lambda: eqsat.composite_rules(WRONG),
        lambda: eqsat.IRModule.from_expr(WRONG),
        lambda: eqsat.onnx.load(WRONG),
        lambda: eqsat.onnx.optimize(WRONG),
        lambda: eqsat.onnx.partition(model, WRONG),
        lambda: eqsat.onnx.equal(model, WRONG),
        lambda: eqsat.onnx.check(model, model, WRONG),
        lambda: eqsat.onnx.why(model, WRONG),
        lambda: eqsat.onnx.why_not(model, WRONG),
        lambda: eqsat.onnx.why_not(model, "relu-twice", WRONG),
        lambda: eqsat.onnx.bisect(model, WRONG),
        lambda: eqsat.onnx.variants(model, count=-WRONG),
        lambda: report_page.render(WRONG, "page"),
        lambda: rules.rewrite(WRONG, wildcard(), wildcard()),
        lambda: rules.rewrite("rule", WRONG, wildcard()),
        lambda: verify(WRONG),
        lambda: prove(WRONG),
        lambda: is_op(WRONG),
        lambda: wildcard().match(WRONG),
        lambda: rewrite(WRONG, graph),
        lambda: partition(WRONG, graph),
        lambda: relay.nn.relu(WRONG),
        lambda: relay.Call(WRONG, [x]),
        lambda: relay.Tuple(WRONG),
        lambda: relay.TupleGetItem(relay.Tuple([x]), "first"),  # type: ignore[arg-type]
        lambda: relay.Function(WRONG, x),
        lambda: relay.fromtext(WRONG),
    ],
)
def test_it_is_named(call: Callable[[], Any]) -> None:
    with pytest.raises(EqsatError, match=r"42|10\.5|'first'|not int"):
        call()
