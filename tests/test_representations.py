"""What a prompt and a notebook show of things: one line each, and HTML of bounded size."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import onnx
import pytest

import eqsat
import eqsat.onnx
from eqsat import relay, rules
from eqsat.rules import PythonRule, rewrite, variables

LONGEST_LINE = 400
MOST_HTML = 40_000
MOST_OF_A_PAGE = 300_000
FRAMED = ["saturation", "extraction"]
x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))


def chain(length: int) -> relay.Expr:
    """A chain of sums, with a constant now and then."""
    node: Any = x
    for index in range(length):
        node = relay.nn.relu(node + y) if index % 2 else node * relay.const(float(index))
    return node  # type: ignore[no-any-return]


def things(graph: relay.Expr, some_rules: Any, explain: bool = False) -> dict[str, Any]:
    """One of each class."""
    function = relay.Function([x, y], graph)
    module = eqsat.IRModule.from_expr(function)
    saturation = eqsat.saturate(module, some_rules, explain=explain)
    extraction = eqsat.extract(saturation)
    found = {
        "expression": graph,
        "function": function,
        "module": module,
        "saturation": saturation,
        "region": saturation.regions[0],
        "snapshot": saturation.regions[0].snapshot,
        "lowered": saturation.regions[0].lowered,
        "extraction": extraction,
        "problem": extraction.problems[0],
        "arrays": extraction.problems[0].problem,
        "result": extraction.results[0],
        "report": saturation.report,
        "rule set": rules.default,
        "rule": next(iter(rules.attending)),
        "python rule": PythonRule("mine", x_pattern, lambda root, found: None),
        "folding": next(iter(rules.fold)),
        "schedule": eqsat.Options(rules=rules.default).schedule,
        "options": eqsat.Options(rules=tuple(rules.algebra)),
        "variant": eqsat.variants(x + y, 1, rules=rules.algebra)[0],
    }
    if explain:
        found["explanation"] = extraction.explanation
    return found


(x_pattern,) = variables("x")
SHOWN = ["expression", "function", "module", "saturation", "extraction", "report", "rule set", "rule", "explanation"]
SMALL = things(chain(4), rules.algebra, explain=True)
LARGE = things(chain(1500), rules.fold)


@pytest.mark.parametrize("name", SMALL)
def test_a_representation_is_one_short_line(name: str) -> None:
    for each in (SMALL, LARGE):
        line = repr(each[name]) if name in each else ""
        assert "\n" not in line
        assert len(line) <= LONGEST_LINE
        assert " object at 0x" not in line or name in ("lowered", "problem")


class Reader(HTMLParser):
    """Sees that every tag is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_shows_html_of_bounded_size(name: str) -> None:
    for each in (SMALL, LARGE):
        if name in each:
            page = each[name]._repr_html_()
            is_framed = name in FRAMED and each is SMALL
            assert ("<iframe" in page) is is_framed
            assert len(page) <= (MOST_OF_A_PAGE if is_framed else MOST_HTML)
            reader = Reader()
            reader.feed(page)
            assert reader.open == []


def test_representations_say_what_counts() -> None:
    assert repr(relay.nn.relu(x * relay.const(2.0))) == "Call(nn.relu(multiply(%x, 2.0)))"
    assert repr(relay.Tuple([x, y])) == "Tuple((%x, %y))"
    assert repr(relay.TupleGetItem(relay.Tuple([x, y]), 1)) == "TupleGetItem((%x, %y).1)"
    assert repr(relay.If(x, y, x)) == "If(%x, %y, %x)"
    assert repr(relay.const([[1, 2], [3, 4]])) == "Constant(int32[2, 2])"
    assert repr(relay.const(2.0)) == "Constant(2.0)"
    assert repr(SMALL["module"]) == "IRModule(@main)"
    assert repr(rewrite("relu-twice", relay.nn.relu(relay.nn.relu(x_pattern)), relay.nn.relu(x_pattern))) == (
        "Rewrite('relu-twice': nn.relu(nn.relu(x)) = nn.relu(x))"
    )
    assert repr(eqsat.extract(eqsat.saturate(x + x, []))) == "Extraction(cost 1, was 1, proved optimal)"
    assert repr(eqsat.saturate(x + x, [])).startswith("Saturation(2 e-nodes in 2 e-classes, stopped: saturated after ")


def test_what_is_deep_wide_or_no_text_is_cut() -> None:
    assert repr(chain(8)) == "Call(nn.relu(add(multiply(nn.relu(add(...)), 6.0), %y)))"
    assert repr(relay.Tuple([x] * 100)) == "Tuple((%x, %x, %x, %x, ...))"
    assert len(repr(relay.var("v" * 10_000))) < LONGEST_LINE
    assert repr(relay.var("\x1b[31mred")) == r"Var(\x1b[31mred)"


def test_comparisons_and_models_are_shown() -> None:
    comparison = eqsat.compare_orders(x + y, list(rules.algebra)[:2], random_runs=0)
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[3] x) => (float[3] y) { a = Relu (x) y = Relu (a) }'
    )
    done = eqsat.onnx.run(model, rules.activations)
    parts = eqsat.onnx.partition(model, "tensorrt", rules.activations)
    for each in (comparison, done, parts, eqsat.equal(x, x)):
        assert "<iframe" in each._repr_html_()
        assert len(each._repr_html_()) <= MOST_OF_A_PAGE
    assert len(eqsat.onnx.merge(model, "tensorrt")._repr_html_()) <= MOST_HTML
    assert repr(comparison) == "OrderComparison(input cost 1, saturation 1; of 2 runs 2 tie, 0 lose, 0 loop)"
    assert repr(done) == "Optimization(1 nodes, were 2; Extraction(cost 1, was 2, proved optimal))"
    assert repr(done.imported) == "Imported(2 nodes; not understood: nothing)"
    assert repr(parts) == "Partitioning(1 x nn.relu)"
    certificate = eqsat.onnx.certify(eqsat.onnx.run(model, rules.activations, explain=True))
    assert repr(certificate) == "Certificate(1 steps by 1 rules, which keep: exact)"


def test_html_is_escaped() -> None:
    page = relay.nn.relu(relay.var("<script>", shape=(2,)))._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
