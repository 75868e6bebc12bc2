"""The report page: what it tells, that it needs nothing else, that no name can break it, and how it feels to use."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from graphlib import TopologicalSorter
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import sync_playwright

import eqsat
import eqsat.onnx
from eqsat import relay, report_page
from eqsat.errors import FileError
from eqsat.extraction import OpCount, Roofline
from eqsat.markup import as_json, text
from eqsat.relay.viz import viz
from eqsat.report_page.embedded import NODES
from eqsat.report_page.graph import draw
from eqsat.report_page.told import MADE
from eqsat.rules import RuleSet, refuse, rewrite, rule, variables

from .pipeline.graphs import typed_graphs

(x,) = variables("x")
SAME = rewrite("same", relay.maximum(x, x), x)


@rule("never", relay.tanh(x))
def NEVER(x: Any) -> Any:
    return refuse("a reason <why> & more")


def network(layers: int) -> relay.Function:
    """Layers of two equal products, the greater of them, and an activation."""
    data = relay.var("data", shape=(4, 4))
    out: relay.Expr = data
    for index in range(layers):
        weight = relay.const(np.full((4, 4), index, "float32"))
        out = relay.tanh(relay.maximum(out * weight, out * weight))
    return relay.Function([data], out)


def optimized(function: relay.Expr | None = None) -> eqsat.Extraction:
    rules = RuleSet("demo", [SAME, NEVER])
    return eqsat.extract(eqsat.saturate(network(3) if function is None else function, rules))


class Page(HTMLParser):
    """What is on a page: elements, text by section, scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, str] = {}
        self.scripts: list[str] = []
        self.section = self.open = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.open = tag
        if tag == "section":
            self.section = dict(attrs)["id"] or ""
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.open = ""

    def handle_data(self, data: str) -> None:
        if self.open == "script":
            self.scripts[-1] += data
        elif self.open != "style":
            self.text[self.section] = self.text.get(self.section, "") + " " + data

    @property
    def graphs(self) -> list[dict[str, Any]]:
        return json.loads(self.scripts[0])


# ---- what it tells


def test_the_page_tells_what_came_of_it_and_what_each_rule_did() -> None:
    page = Page(report_page.render(optimized(), "net.onnx"))
    assert "12 → 6" in page.text["summary"]
    assert "same" in page.text["rules"]
    assert "3 × a reason <why> & more" in page.text["rules"]
    assert "multiply" in page.text["operators"]
    charts = [json.loads(str(attrs["data-chart"])) for _, attrs in page.elements if "data-chart" in attrs]
    assert [[each["name"] for each in chart["series"]] for chart in charts] == [["e-nodes", "classes"], ["seconds"]]


def test_nodes_that_were_removed_and_values_that_both_graphs_have_are_told() -> None:
    before, after = Page(report_page.render(optimized(network(1)), "net")).graphs
    heads = [[graph["strings"][lines[0]] for lines in graph["lines"]] for graph in (before, after)]
    removed = [head for head, gone in zip(heads[0], before["gone"], strict=True) if gone]
    assert removed == ["multiply", "maximum"]
    joined = [(heads[0][partner], head) for head, partner in zip(heads[1], after["partner"], strict=True)]
    assert {("%data", "%data"), ("tanh", "tanh")} <= {*joined}
    assert [before["partner"][partner] for partner in after["partner"]] == [*range(len(heads[1]))]


def test_what_else_was_found_for_a_value_is_listed_with_what_it_would_cost() -> None:
    data = relay.var("x", shape=(2,))
    double = rewrite("double", x + x, x * relay.const(2.0))
    model = {"add": 5.0, "multiply": 2.0, "tanh": 1.0}
    saturation = eqsat.saturate(relay.Function([data], relay.tanh(data + data)), [double])
    extraction = eqsat.extract(saturation, lambda node: model.get(node.op, 0.0))
    before, after = Page(report_page.render(extraction, "net")).graphs
    (choices,) = before["classes"]
    assert [(own, besides, chosen) for _, own, besides, chosen in choices] == [(2.0, 0.0, True), (5.0, 0.0, False)]
    assert [told.split("(")[0] for told, *_ in choices] == ["multiply", "add"]
    assert sorted(before["class"]) == sorted(after["class"]) == [-1, -1, 0]


def test_a_choice_costs_what_it_needs_besides_the_chosen_graph() -> None:
    data = relay.var("x", shape=(2,))
    longer = rewrite("longer", relay.tanh(x), relay.exp(relay.erf(relay.sin(x))))
    saturation = eqsat.saturate(relay.Function([data], relay.tanh(data)), [longer])
    extraction = eqsat.extract(
        saturation, lambda node: {"sin": 3.0, "erf": 4.0}.get(node.op, float(node.op in ("tanh", "exp")))
    )
    before, _ = Page(report_page.render(extraction, "net")).graphs
    assert [row[1:] for row in before["classes"][0]] == [[1.0, 0.0, True], [1.0, 7.0, False]]


def test_what_a_runtime_computes_at_once_stands_in_a_frame() -> None:
    drawing = draw(network(1), OpCount())
    drawing.frame([("one kernel", drawing.exprs[-2:])])
    parent, frames = drawing.columns["parent"], drawing.columns["frames"]
    assert parent[-2:] == [len(frames) - 1] * 2 != parent[:2]
    assert drawing.columns["strings"][frames[-1][1]] == "one kernel"
    drawing.frame([("two places", [drawing.exprs[0], drawing.exprs[-1]])])
    assert drawing.columns["parent"] == parent


def graph_after(columns: list[dict[str, Any]], done: int) -> dict[int, list[int]]:
    """What each node takes after some of the steps, as the page's script has it."""
    graph = dict(enumerate(inputs_of(columns[0])))
    for step in columns[0]["steps"][:done]:
        for node in step["minus"]:
            del graph[node]
        graph |= dict(step["inputs"])
    return graph


def inputs_of(columns: dict[str, Any]) -> list[list[int]]:
    inputs: list[list[int]] = [[] for _ in columns["kind"]]
    for source, target in zip(columns["edges"][::2], columns["edges"][1::2], strict=True):
        inputs[target].append(source)
    return inputs


def check_steps(page: str) -> int:
    """Check that all steps are graphs and the last is the result; how many there are."""
    before, after = columns = Page(page).graphs
    size, steps = len(before["kind"]), before["steps"]
    for done in range(len(steps) + 1):
        graph = graph_after(columns, done)
        assert all(source in graph for sources in graph.values() for source in sources)
        TopologicalSorter(graph).prepare()
        if done:
            assert {*steps[done - 1]["plus"]} <= graph.keys()
    numbers = [size + node if kept < 0 else kept for node, kept in enumerate(after["kept"])]
    result = {numbers[node]: [numbers[each] for each in sources] for node, sources in enumerate(inputs_of(after))}
    assert {node: sources for node, sources in graph.items() if node in result} == result
    unused = graph.keys() - result.keys()  # inputs that the result no longer takes
    assert all(before["strings"][before["kind"][node]] == "variable" for node in unused)
    return len(steps)


def test_steps_name_their_rules_and_the_nodes_that_they_remove_and_add() -> None:
    data = relay.var("x", shape=(2,))
    doubled = data + data
    doubled.span = relay.Span("sum", 1, 1)
    double = rewrite("double", x + x, x * relay.const(2.0))
    saturation = eqsat.saturate(relay.Function([data], relay.tanh(doubled)), [double], explain=True)
    extraction = eqsat.extract(saturation, lambda node: 5.0 * (node.op == "add"))
    page = report_page.render(extraction, "net", made_by=extraction.explanation.origins)
    before, after = Page(page).graphs
    (step,) = before["steps"]
    assert (step["told"], step["place"], step["rules"]) == ("add → multiply", "sum:1:1", ["double"])
    heads = [before["strings"][lines[0]] for lines in before["lines"]]
    heads += [after["strings"][lines[0]] for lines in after["lines"]]
    assert [[heads[node] for node in step[name]] for name in ("minus", "plus")] == [["add"], ["multiply"]]
    changed = {heads[node]: [heads[each] for each in sources] for node, sources in step["inputs"]}
    assert changed == {"multiply": ["%x"], "tanh": ["multiply"]}
    assert check_steps(page) == 1


@settings(max_examples=40, deadline=None)
@given(typed_graphs())
def test_steps_lead_from_the_given_graph_to_the_result(graph: relay.Expr) -> None:
    extraction = eqsat.extract(eqsat.saturate(graph, eqsat.rules.algebra, limits=eqsat.Limits(iterations=3)))
    check_steps(report_page.render(extraction, "net"))


def layered_text(count: int) -> str:
    """A model of layers of a product, one activation twice, and others once."""
    operators = ["Relu", "Relu", "Tanh", "Exp", "Sin", "Sigmoid", "Atan", "Erf"]
    lines = []
    for layer in range(count):
        lines.append(f"v{layer}_0 = MatMul (v{layer}, w{layer})")
        lines += [f"v{layer}_{at} = {name} (v{layer}_{at - 1})" for at, name in enumerate(operators, 1)]
        lines.append(f"v{layer + 1} = Cos (v{layer}_{len(operators)})")
    inputs = ", ".join([f"float[4,4] {name}" for name in ["v0", *[f"w{layer}" for layer in range(count)]]])
    body = "\n".join(lines)
    return f'<ir_version: 8, opset_import: ["": 17]> g ({inputs}) => (float[4,4] v{count}) {{ {body} }}'


MODELS = {
    "layers": layered_text(12),
    "one node": '<ir_version: 8, opset_import: ["": 17]> g (float[3] x) => (float[3] y) { y = Relu (x) }',
    "twice": '<ir_version: 8, opset_import: ["": 17]> g (float[3] x) => (float[3] y) { a = Relu (x) y = Relu (a) }',
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("explain", [False, True])
def test_every_new_node_of_a_model_has_its_rule(name: str, explain: bool) -> None:
    done = eqsat.onnx.run(onnx.parser.parse_model(MODELS[name]), explain=explain)
    page = report_page.render(done.extraction, name, cost_model=done.options.cost_model)
    before, after = Page(page).graphs
    assert MADE not in {before["strings"][told] for told in before["rule"]}
    assert {after["strings"][told] for told in after["rule"]} <= {"input", *done.extraction.report.rules}
    is_long = name == "layers"
    assert (done.extraction.copies is not None) is (is_long and not explain)
    assert check_steps(page) >= (12 if is_long else 0)
    assert sum(before["gone"]) == (12 if is_long else 0 if name == "one node" else 1)


def test_the_heat_of_all_nodes_is_the_cost_of_the_graph() -> None:
    model = Roofline()
    extraction = eqsat.extract(eqsat.saturate(network(3), [SAME]), model)
    before, after = Page(report_page.render(extraction, "net", cost_model=model)).graphs
    assert sum(cost or 0.0 for cost in before["cost"]) == pytest.approx(extraction.input_cost)
    assert sum(cost or 0.0 for cost in after["cost"]) == pytest.approx(extraction.cost)


def test_edges_are_those_of_the_graph_and_weights_are_told_by_what_takes_them() -> None:
    data, weight = relay.var("data", shape=(2, 2)), relay.const(np.ones((3, 2), "float32"))
    columns = draw(relay.Function([data], relay.nn.dense(relay.tanh(data), weight)), OpCount()).columns
    lines = [[columns["strings"][line] for line in node] for node in columns["lines"]]
    heads = [line[0] for line in lines]
    assert heads == ["%data", "tanh", "nn.dense"]
    assert columns["edges"] == [0, 1, 1, 2]
    assert columns["strings"][columns["constants"][2]] == "float32 (3, 2)"
    assert columns["strings"][columns["type"][2]] == "Tensor[(2, 3), float32]"


def test_a_constant_alone_in_a_branch_keeps_its_box() -> None:
    condition = relay.var("c", shape=(), dtype="bool")
    graph = relay.Function([condition], relay.If(condition, relay.const(1.0), relay.const(2.0)))
    columns = draw(graph, OpCount()).columns
    assert {"1f", "2f"} <= set(columns["strings"])
    assert len(columns["frames"]) == 3


def test_a_module_is_drawn_function_by_function() -> None:
    module = eqsat.IRModule.from_expr(network(1))
    page = Page(report_page.render(eqsat.extract(eqsat.saturate(module, [SAME])), "module"))
    assert "@main" in page.graphs[0]["strings"]


def test_boxes_stand_for_the_nodes_of_the_graph() -> None:
    function = network(2)
    told = [node for node in viz(function).nodes.values() if isinstance(node, relay.Call)]
    assert len(told) == 8


def test_what_made_each_node_is_told_when_it_is_known() -> None:
    data, weight = relay.var("x", shape=(2,)), relay.var("w", shape=(2,))
    given = relay.Function([data, weight], relay.tanh(data * weight + data * weight))
    double = rewrite("double", x + x, x * relay.const(2.0))
    extraction = eqsat.extract(eqsat.saturate(given, [double], explain=True), lambda node: 5.0 * (node.op == "add"))
    after = Page(report_page.render(extraction, "net", made_by=extraction.explanation.origins)).graphs[1]
    strings = after["strings"]
    told = {strings[lines[0]]: strings[rule] for lines, rule in zip(after["lines"], after["rule"], strict=True)}
    assert told["tanh"] == "input"
    assert "double" in after["strings"]


def test_rules_that_failed_are_told_with_the_place() -> None:
    extraction = optimized()
    extraction.report.fail("same", ValueError("no <such> axis"))
    told = Page(report_page.render(extraction, "net")).text["rules"]
    assert "rule that failed" in told
    assert "ValueError: no <such> axis" in told


def test_orders_and_nodes_passed_through_are_shown_when_given() -> None:
    comparison = eqsat.compare_orders(network(1), [SAME], random_runs=1)
    bare = Page(report_page.render(optimized(), "net"))
    full = Page(report_page.render(optimized(), "net", orders=comparison, opaque={"Odd": {"unheard of": 7}}))
    assert not {"orders", "opaque"} & bare.text.keys()
    assert "Of 2 runs 0 reach the cost of saturation, 2 end dearer" in full.text["orders"]
    assert "unheard of" in full.text["opaque"]


def test_a_graph_of_nothing_but_its_input_has_a_page() -> None:
    data = relay.var("x", shape=(1,))
    page = Page(report_page.render(optimized(relay.Function([data], data)), "empty"))
    assert page.graphs[0]["edges"] == []
    assert "0 → 0" in page.text["summary"]


# ---- that it is whole and safe


def test_the_page_loads_nothing_and_runs_no_script_but_its_own() -> None:
    page = Page(report_page.render(optimized(), "net"))
    names = [name for _, attrs in page.elements for name in attrs]
    policy = next(attrs["content"] for tag, attrs in page.elements if attrs.get("http-equiv"))
    digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in page.scripts[1:]]
    assert not {"src", "href", "srcset"} & set(names)
    assert "default-src 'none'" in str(policy)
    sources = " ".join([f"'sha256-{digest}'" for digest in digests])
    assert f"script-src {sources};" in str(policy)
    assert not re.search(r"url\(|@import|https?://", page.scripts[-1])


def test_libraries_are_those_that_were_published_with_their_licences() -> None:
    folder = Path(report_page.__file__).parent / "vendored"
    told = (folder / "README.md").read_text(encoding="utf-8")
    libraries = [each for each in folder.iterdir() if each.is_dir()]
    assert len(libraries) == 2
    for library in libraries:
        assert f"| `{library.name}` |" in told
        assert "Permission is hereby granted" in (library / "LICENSE").read_text(encoding="utf-8")


HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "<!--",
    "&lt;",
    "$title",
    "\0\ud800",
    "a\u2028b",
]


def of_one_input(name: str) -> eqsat.Extraction:
    data = relay.var(name, shape=(2,))
    return optimized(relay.Function([data], relay.tanh(data)))


@pytest.mark.parametrize("name", HOSTILE)
def test_names_from_files_are_text_and_nothing_else(name: str, tmp_path: Path) -> None:
    report_page.write(tmp_path / "page.html", report_page.render(of_one_input(name), name, opaque={name: {name: 1}}))
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    plain = Page(report_page.render(of_one_input("x"), "plain", opaque={"odd": {"unknown": 1}}))
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in plain.elements]
    assert any(line.startswith("%") for line in page.graphs[0]["strings"])


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_any_text_comes_out_of_html_as_it_was_as_far_as_it_can_be_printed(said: str) -> None:
    page = Page(f'<section id="s">{text(said)}</section>')
    shown = "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in said)
    assert page.text.get("s", " ") == " " + shown
    assert len(page.elements) == 1


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text() | st.integers() | st.lists(st.text())))
def test_any_data_comes_out_of_a_script_element_as_it_was(data: Any) -> None:
    page = Page(f'<script type="application/json">{as_json(data)}</script>')
    assert json.loads(page.scripts[0]) == data
    assert len(page.elements) == 1


def test_the_file_is_written_whole_or_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "page.html"
    report_page.write(target, "first")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(FileError, match=r"cannot write .*page\.html: No space left on device"):
        report_page.write(target, "second")
    assert target.read_text() == "first"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("place", ["", "missing/page.html"])
def test_a_place_that_cannot_be_written_to_is_an_error_of_ours(place: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot write"):
        report_page.write(tmp_path / place, "page")


def test_work_and_size_grow_with_the_graph_and_not_faster(count_calls: Callable[[Any], int]) -> None:
    def effort(layers: int) -> tuple[int, int]:
        extraction = eqsat.extract(eqsat.saturate(network(layers), ()), method="dag")
        return count_calls(lambda: report_page.render(extraction, "net")), len(report_page.render(extraction, "net"))

    small, large = effort(50), effort(200)
    assert large[0] < 4.6 * small[0]
    assert large[1] < 4 * small[1]


def test_a_graph_deeper_than_the_stack_has_a_page() -> None:
    page = Page(report_page.render(eqsat.extract(eqsat.saturate(network(600), ()), method="dag"), "deep"))
    assert len(page.graphs[0]["kind"]) == 4 * 600 + 1


# ---- about graphs that are compared


def test_both_graphs_are_joined_by_what_is_proved_and_where_they_part_is_marked() -> None:
    data = relay.var("data", shape=(4, 4))
    found = eqsat.equal(relay.tanh(data) - relay.exp(data), relay.exp(data) - relay.tanh(data))
    page = Page(report_page.render_equality(found, "a <b>"))
    first, second = page.graphs
    told = {
        graph["strings"][lines[0]]: graph["strings"][rule]
        for graph in (first, second)
        for lines, rule in zip(graph["lines"], graph["rule"], strict=True)
    }
    assert told == {
        "%data": "proved equal", "tanh": "proved equal", "exp": "proved equal", "subtract": "they part here"
    }  # fmt: skip
    heads = [[graph["strings"][lines[0]] for lines in graph["lines"]] for graph in (first, second)]
    joined = {(heads[0][partner], head) for head, partner in zip(heads[1], second["partner"], strict=True)
              if partner >= 0}  # fmt: skip
    assert joined == {("%data", "%data"), ("tanh", "tanh"), ("exp", "exp")}
    assert "subtract" in page.text["parting"]
    assert "different" in page.text["summary"]


# ---- in a browser

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed; the README says how to install one")
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    extraction = optimized()
    made_by = dict.fromkeys(viz(extraction.expr).nodes.values(), "same")
    path = tmp_path_factory.mktemp("report") / "page.html"
    orders = eqsat.compare_orders(network(1), [SAME], random_runs=1)
    report_page.write(path, report_page.render(extraction, "net <b>", made_by=made_by, orders=orders))
    return path


class Tab:
    """A page opened; whatever goes wrong in it fails the test."""

    def __init__(self, browser: Any, path: Path, **context: Any) -> None:
        self.page = browser.new_page(viewport={"width": 1300, "height": 900}, **context)
        self.asked: list[str] = []
        self.troubles: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("console", lambda message: self.troubles.append(message.text))
        self.page.on("dialog", lambda dialog: (self.troubles.append("dialog"), dialog.dismiss()))
        self.page.goto(path.as_uri())
        self.settle()

    def settle(self) -> None:
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def pixels(self, index: int) -> str:
        self.settle()
        return str(self.page.evaluate("index => document.querySelectorAll('canvas')[index].toDataURL()", index))

    def ink(self, index: int) -> int:
        """Pixels of a graph's canvas that are not empty."""
        return int(self.page.evaluate(
            "index => { const c = document.querySelectorAll('canvas')[index];"
            " const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
            " let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n; }", index))  # fmt: skip

    def zoom(self, index: int = 0) -> float:
        return float(self.page.locator(".zoom").nth(index).inner_text().removesuffix(" %"))


@pytest.fixture
def tab(browser: Any, page_file: Path) -> Iterator[Tab]:
    opened = Tab(browser, page_file)
    yield opened
    opened.page.close()
    assert opened.troubles == []
    assert opened.asked == [page_file.as_uri()]


def test_both_graphs_are_drawn(tab: Tab) -> None:
    assert tab.ink(0) > 1000
    assert tab.ink(1) > 1000
    assert tab.page.locator("h1").inner_text() == "net <b>"


def test_buttons_keys_and_the_wheel_zoom(tab: Tab) -> None:
    canvas = tab.page.locator("canvas").first
    start, other = tab.zoom(0), tab.zoom(1)
    tab.page.get_by_role("button", name="Zoom in, graph before").click()
    closer = tab.zoom()
    canvas.focus()
    tab.page.keyboard.press("-")
    farther = tab.zoom()
    canvas.hover()
    tab.page.mouse.wheel(0, -300)
    tab.settle()
    assert closer > start
    assert farther < closer
    assert tab.zoom() > farther
    assert tab.zoom(1) == tab.zoom() != other
    tab.page.keyboard.press("0")
    assert tab.zoom() == pytest.approx(start)
    tab.page.uncheck("#linked")
    canvas.focus()
    tab.page.keyboard.press("-")
    assert (tab.zoom(), tab.zoom(1)) == (pytest.approx(start / 1.25, rel=0.01), pytest.approx(other))


def test_the_wheel_scrolls_the_page_until_a_graph_is_chosen(tab: Tab) -> None:
    start = tab.zoom()
    tab.page.locator("canvas").first.hover()
    tab.page.mouse.wheel(0, 200)
    tab.page.wait_for_function("() => scrollY > 0")
    assert tab.zoom() == start


def test_dragging_and_arrow_keys_pan(tab: Tab) -> None:
    box = tab.page.locator("canvas").first.bounding_box()
    still = tab.pixels(0)
    tab.page.mouse.move(box["x"] + 20, box["y"] + 20)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + 120, box["y"] + 80, steps=4)
    tab.page.mouse.up()
    dragged = tab.pixels(0)
    tab.page.locator("canvas").first.focus()
    tab.page.keyboard.press("ArrowDown")
    assert len({still, dragged, tab.pixels(0)}) == 3


def test_searching_lists_nodes_and_enter_goes_to_them(tab: Tab) -> None:
    tab.page.fill("#search", "tanh")
    assert tab.page.locator("#found").inner_text() == "3 found before, 3 after"
    assert tab.page.locator("#hits li").count() == 6
    tab.page.press("#search", "Enter")
    details = tab.page.locator("#details")
    assert details.locator("h3").inner_text() == "tanh"
    assert "Tensor[(4, 4), float32]" in details.inner_text()
    assert tab.page.locator("#hits [aria-current]").count() == 1
    tab.page.fill("#search", "no such thing")
    assert tab.page.locator("#found").inner_text() == "0 found before, 0 after"
    tab.page.press("#search", "Escape")
    assert tab.page.locator(".found").is_hidden()


def test_one_walks_the_graph_from_node_to_node(tab: Tab) -> None:
    tab.page.fill("#search", "data")
    tab.page.locator("#hits button").first.click()
    details = tab.page.locator("#details")
    assert details.locator("h3").inner_text().startswith("%data")
    details.get_by_role("button", name="multiply").first.click()
    assert details.locator("h3").inner_text() == "multiply"
    assert "float32 (4, 4)" in details.inner_text()
    details.get_by_role("button", name="maximum").click()
    assert details.locator("h3").inner_text() == "maximum"


def test_the_e_graph_around_a_node_is_told(tab: Tab) -> None:
    tab.page.fill("#search", "maximum")
    tab.page.press("#search", "Enter")
    rows = tab.page.locator("#details .choices tbody tr")
    assert rows.count() == 2
    assert rows.first.inner_text().startswith("chosen")
    assert "maximum" in rows.nth(1).inner_text()


def test_clicking_a_node_tells_of_it_and_escape_lets_go(tab: Tab) -> None:
    tab.page.fill("#search", "tanh")
    tab.page.press("#search", "Enter")
    box = tab.page.locator("canvas").first.bounding_box()
    tab.page.locator("canvas").first.focus()
    tab.page.keyboard.press("Escape")
    assert tab.page.locator("#details h3").count() == 0
    tab.page.locator("canvas").first.click(position={"x": box["width"] / 2, "y": box["height"] / 2})
    assert tab.page.locator("#details h3").inner_text() == "tanh"


def test_nodes_are_coloured_by_cost_kind_or_rule(tab: Tab) -> None:
    looks = []
    for colouring in ("cost", "kind", "rule"):
        tab.page.select_option("#colouring", colouring)
        looks.append(tab.pixels(1))
    assert len(set(looks)) == 3
    assert "same" in tab.page.locator("#legend").inner_text()


def test_tables_sort_by_any_column(tab: Tab) -> None:
    column = tab.page.locator("#operators tbody tr td:first-child")
    head = tab.page.get_by_role("button", name="operator", exact=True)
    head.click()
    falling = column.all_inner_texts()
    head.click()
    assert falling == ["tanh", "multiply", "maximum"]
    assert column.all_inner_texts() == falling[::-1]
    assert tab.page.locator("#operators th").first.get_attribute("aria-sort") == "ascending"


LAYERED = 20


@pytest.fixture(scope="module")
def layered_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("layered") / "page.html"
    report_page.write(path, report_page.render(optimized(network(LAYERED)), "layers"))
    return path


@pytest.mark.parametrize("width", [390, 820, 1440])
def test_nothing_is_wider_than_the_screen(width: int, browser: Any, layered_file: Path) -> None:
    tab = Tab(browser, layered_file)
    tab.page.set_viewport_size({"width": width, "height": 900})
    tab.settle()
    assert tab.page.evaluate("() => document.documentElement.scrollWidth") == width
    tops = [tab.page.locator("canvas").nth(index).bounding_box()["y"] for index in (0, 1)]
    assert (tops[0] == tops[1]) is (width > 720)
    assert tab.troubles == []
    tab.page.close()


def test_repeated_layers_are_folded_and_unfold(browser: Any, layered_file: Path) -> None:
    tab = Tab(browser, layered_file)

    def titles() -> list[str]:
        shown = "() => views[0].layout.visible.map(index => views[0].layout.boxes[index].title).filter(Boolean)"
        return [title for title in tab.page.evaluate(shown) if title.startswith("layer")]

    def count() -> int:
        return int(tab.page.evaluate("() => views[0].layout.visible.length"))

    assert titles() == [f"layer {index} of {LAYERED}" for index in range(1, LAYERED + 1)]
    folded = count()
    tab.page.get_by_role("button", name="Unfold all").click()
    assert count() == folded + 4 * LAYERED
    tab.page.get_by_role("button", name="Fold layers").click()
    assert count() == folded
    place = "() => { const v = views[0], b = v.layout.boxes.find(box => box.members); const s = v.scale; return" \
            " { x: (b.x + 20 - v.left) * s, y: (b.y + 12 - v.top) * s }; }"  # fmt: skip
    for wanted in (folded + 4, folded):  # a click opens the first layer, one on its title closes it
        tab.page.locator("canvas").first.click(position=tab.page.evaluate(place))
        assert count() == wanted
    tab.page.fill("#search", "tanh")
    tab.page.press("#search", "Enter")
    assert count() == folded + 4
    assert tab.troubles == []
    tab.page.close()


def test_layers_fold_by_the_names_of_their_values_and_take_what_has_no_name(browser: Any, tmp_path: Path) -> None:
    out: relay.Expr = relay.var("data", shape=(4, 4))
    for index in range(35):
        out = relay.exp(relay.tanh(out))
        out.span = relay.Span(f"/net/layer.{index // 7}/exp", 1, 1)
    path = tmp_path / "page.html"
    report_page.write(path, report_page.render(optimized(relay.Function(relay.analysis.free_vars(out), out)), "named"))
    tab = Tab(browser, path)
    groups = tab.page.evaluate("() => views[0].layout.groups.map(group => [group.title, group.members.length])")
    assert [(title.split(":")[0], size) for title, size in groups] == [(f"/net/layer.{at}", 14) for at in range(5)]
    assert tab.troubles == []
    tab.page.close()


def test_costs_of_orders_stand_on_a_logarithmic_axis(browser: Any, page_file: Path) -> None:
    tab = Tab(browser, page_file)
    assert tab.page.locator("#orders .chart canvas").count() == 1
    assert tab.page.evaluate("() => charts.map(chart => chart.scales.y.distr)") == [1, 1, 3]
    tab.page.close()


def test_the_slider_shows_the_graph_after_each_step(browser: Any, page_file: Path) -> None:
    tab = Tab(browser, page_file)
    count = "() => [graphs[1].count, graphs[1].edges.length / 2]"
    result, whole = tab.page.evaluate(count), tab.pixels(1)
    slider = tab.page.locator("#step")
    most = int(slider.get_attribute("max"))
    told = tab.page.locator("#step-told")
    assert told.inner_text() == f"{most} of {most}: the result"
    slider.focus()
    tab.page.keyboard.press("Home")
    assert told.inner_text() == f"0 of {most}: the given graph"
    assert tab.page.evaluate(count) == tab.page.evaluate("() => [given[0].count, given[0].edges.length / 2]")
    for done in range(1, most + 1):
        tab.page.keyboard.press("ArrowRight")
        assert told.inner_text().startswith(f"{done} of {most}: maximum, multiply → nothing; by same")
        assert tab.page.evaluate("() => state.marks[0].size") == 2
        assert tab.page.evaluate("() => graphs[1].count") == result[0] + 2 * (most - done)
    assert tab.page.evaluate(count) == result
    assert tab.pixels(1) != whole
    assert "removed by this step" in tab.page.locator("#legend").inner_text()
    tab.page.get_by_role("button", name="Result", exact=True).click()
    tab.page.locator("canvas").nth(1).focus()
    tab.page.keyboard.press("0")
    assert tab.page.evaluate("() => state.marks") is None
    tab.page.keyboard.press("[")
    assert slider.input_value() == str(most - 1)
    assert tab.troubles == []
    tab.page.close()


def test_both_graphs_move_together_and_the_map_leads_to_any_place(browser: Any, layered_file: Path) -> None:
    tab = Tab(browser, layered_file)
    tab.page.get_by_role("button", name="Unfold all").click()
    tab.settle()
    middles = "() => views.map(view => (view.top + view.height / view.scale / 2) / view.layout.height)"
    start = tab.page.evaluate(middles)
    place = "() => { const m = views[0].map; return { x: m.x + m.width / 2, y: m.y + m.height / 2 }; }"
    tab.page.locator("canvas").first.click(position=tab.page.evaluate(place))
    first, second = tab.page.evaluate(middles)
    assert start[0] < 0.4
    assert first == pytest.approx(0.5, abs=0.02)
    assert second == pytest.approx(first)
    assert tab.page.locator("#details h3").count() == 0
    tab.page.close()


def test_boxes_stand_apart_and_a_rule_has_one_colour_in_both_graphs(browser: Any, layered_file: Path) -> None:
    tab = Tab(browser, layered_file)
    tab.page.get_by_role("button", name="Unfold all").click()
    overlaps = """() => views.flatMap(({ layout: { boxes, visible } }) => visible.flatMap(i => visible.filter(j =>
        i < j && boxes[i].parent === boxes[j].parent && boxes[i].x < boxes[j].x + boxes[j].size[0] && boxes[j].x <
        boxes[i].x + boxes[i].size[0] && boxes[i].y < boxes[j].y + boxes[j].size[1] && boxes[j].y < boxes[i].y +
        boxes[i].size[1])))"""
    assert tab.page.evaluate(overlaps) == []
    assert tab.page.input_value("#colouring") == "rule"
    tab.page.close()


def test_notebooks_show_pages_that_run_by_themselves(browser: Any, tmp_path: Path) -> None:
    data = relay.var("</iframe><script>alert(1)</script>", shape=(4, 4))
    graph = relay.tanh(relay.maximum(data, data))
    extraction = optimized(relay.Function([data], graph))
    comparison = eqsat.compare_orders(relay.Function([data], graph), [SAME], random_runs=1)
    things: list[Any] = [extraction, comparison, eqsat.saturate(graph, [SAME]), eqsat.equal(graph, graph), viz(graph)]
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><meta charset=utf-8>{''.join([each._repr_html_() for each in things])}")
    tab = Tab(browser, path)
    for index, count in enumerate((2, 2, 1, 2, 1)):
        tab.page.locator("iframe").nth(index).scroll_into_view_if_needed()
        inside = tab.page.frame_locator("iframe").nth(index)
        inside.locator("figure.graph canvas").first.scroll_into_view_if_needed()
        assert inside.locator("figure.graph").count() == count
        inside.locator("#search").fill("tanh")
        assert inside.locator("#found").inner_text().startswith("1 found")
        inside.locator("#search").press("Enter")
        assert inside.locator("#details h3").inner_text() == "tanh"
    assert "same" in tab.page.frame_locator("iframe").first.locator("#legend").inner_text()
    assert tab.troubles == []
    assert [each for each in tab.asked if not each.startswith("about:")] == [path.as_uri()]
    tab.page.close()


def test_a_large_graph_is_told_in_a_notebook_without_its_page() -> None:
    out: relay.Expr = relay.var("x", shape=(2,))
    for _ in range(NODES):
        out = relay.tanh(out)
    shown = eqsat.saturate(out, ())._repr_html_()
    assert "<iframe" not in shown
    assert "Saturation(" in shown


# ---- colours

# What people see who lack one kind of cone, in linear RGB: Machado, Oliveira and Fernandes, "A Physiologically-based
# Model for Simulation of Color Vision Deficiency", 2009, severity 1.
SIGHTS = {
    "all cones": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
)
LEAST_DISTANCE = 12
"""In CIELAB, where 2.3 is just noticed."""


def linear(colour: str) -> Any:
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(light: Any) -> Any:
    white = TO_XYZ @ np.ones(3)
    ratio = TO_XYZ @ np.clip(light, 0, 1) / white
    x, y, z = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it."""
    dim, bright = sorted(float(TO_XYZ[1] @ linear(each)) for each in (one, other))
    return (bright + 0.05) / (dim + 0.05)


def schemes() -> dict[str, dict[str, str]]:
    """The colours of the page by name, in light and in dark."""
    css = (Path(report_page.__file__).parent / "page.css").read_text(encoding="utf-8")
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#\w{6})", block)) for block in re.findall(r":root \{(.*?)\}", css, re.S)
    )
    return {"light": light, "dark": light | dark}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("sight", SIGHTS)
def test_colours_of_rules_differ_for_every_sight(sight: str, scheme: str) -> None:
    colours = schemes()[scheme]
    seen = {name: lab(np.array(SIGHTS[sight]) @ linear(colour)) for name, colour in colours.items()}
    for names in ([*[f"rule{index}" for index in range(8)], "rest", "cool"], ["gone", "chosen", "found", "edge"]):
        distances = {pair: float(np.linalg.norm(seen[pair[0]] - seen[pair[1]])) for pair in combinations(names, 2)}
        assert min(distances.values()) >= LEAST_DISTANCE, min(distances, key=distances.__getitem__)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_marks_stand_out_from_what_is_behind_them(scheme: str) -> None:
    colours = schemes()[scheme]
    boxes = [*[f"rule{index}" for index in range(8)], "rest", "operator", "variable", "constant", "other", "hot"]
    texts = [("box-ink", box) for box in boxes]
    texts += [(ink, paper) for ink in ("ink", "soft") for paper in ("ground", "card", "cool", "frame")]
    texts += [(ink, paper) for ink in ("accent", "plus", "gone") for paper in ("ground", "card")]
    marks = [(mark, "card") for mark in ("edge", "gone", "found", "chosen")]
    assert [pair for pair in texts if contrast(*(colours[name] for name in pair)) < 4.5] == []
    assert [pair for pair in marks if contrast(*(colours[name] for name in pair)) < 3] == []


def test_a_rule_has_a_number_beside_its_colour(tab: Tab) -> None:
    assert tab.page.locator("#legend span").first.inner_text().split() == ["1", "same"]


def test_the_page_follows_light_and_dark(browser: Any, page_file: Path) -> None:
    tabs = [Tab(browser, page_file, color_scheme=scheme) for scheme in ("light", "dark")]
    light, dark = (tab.page.evaluate("() => getComputedStyle(document.body).backgroundColor") for tab in tabs)
    assert light != dark
    assert tabs[0].pixels(0) != tabs[1].pixels(0)
    for tab in tabs:
        tab.page.close()


def test_without_its_script_the_page_still_reads(browser: Any, page_file: Path) -> None:
    tab = Tab.__new__(Tab)
    context = browser.new_context(java_script_enabled=False)
    tab.page = context.new_page()
    tab.page.goto(page_file.as_uri())
    assert "same" in tab.page.locator("#rules").inner_text()
    assert "switched off" in tab.page.locator("noscript").inner_text()
    context.close()


@pytest.mark.parametrize("name", HOSTILE[:3])
def test_no_name_becomes_a_script(name: str, browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    report_page.write(path, report_page.render(of_one_input(name), name))
    tab = Tab(browser, path)
    tab.page.fill("#search", "%")
    tab.page.press("#search", "Enter")
    assert tab.page.locator("#details h3").inner_text() == f"%{name}"
    assert tab.page.locator("h1").inner_text() == name
    assert tab.troubles == []
    tab.page.close()


@pytest.mark.slow
def test_five_thousand_nodes_open_and_are_searched(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    report_page.write(path, report_page.render(eqsat.extract(eqsat.saturate(network(1250), ()), method="dag"), "large"))
    assert path.stat().st_size < 2_000_000
    tab = Tab(browser, path)
    tab.page.fill("#search", "tanh")
    assert tab.page.locator("#found").inner_text() == "1250 found before, 1250 after, the first 200 are listed"
    tab.page.get_by_role("button", name="Unfold all").click()
    tab.page.locator("canvas").first.focus()
    tab.page.keyboard.press("0")
    assert tab.ink(0) > 0
    assert tab.troubles == []
    tab.page.close()


def test_the_partner_of_a_node_is_one_click_away(browser: Any, tmp_path: Path) -> None:
    data = relay.var("data", shape=(4, 4))
    found = eqsat.equal(relay.tanh(data) - relay.exp(data), relay.exp(data) - relay.tanh(data))
    report_page.write(tmp_path / "page.html", report_page.render_equality(found, "a and b"))
    tab = Tab(browser, tmp_path / "page.html")
    tab.page.fill("#search", "tanh")
    tab.page.press("#search", "Enter")
    details = tab.page.locator("#details")
    assert "equal to, in second" in details.inner_text()
    assert "they part here" in tab.page.locator("#legend").inner_text()
    tab.page.close()
    assert tab.troubles == []
