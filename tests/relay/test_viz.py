"""Pictures: what is drawn, that it is well-formed, and that boxes do not overlap."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

import eqsat
from eqsat import relay
from eqsat.errors import ArgumentError
from eqsat.relay.dataflow_pattern import is_op, wildcard
from eqsat.relay.layered import Box, arrange

from .graphs import exprs


def conv_relu() -> relay.Expr:
    return relay.nn.relu(relay.nn.conv2d(relay.var("x", shape=(1, 3, 8, 8)), relay.var("w")))


def composite() -> relay.Expr:
    pattern = is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), wildcard()))
    expr: relay.Expr = pattern.partition(conv_relu(), {"Composite": "dnnl.conv_relu"})
    return expr


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def overlap(a: Box, b: Box) -> bool:
    return a.x < b.x + b.width and b.x < a.x + a.width and a.y < b.y + b.height and b.y < a.y + a.height


def test_an_expression() -> None:
    picture = relay.viz(conv_relu())
    assert texts(picture.svg) == [
        "%x",
        "Tensor[(1, 3, 8, 8), float32]",
        "%w",
        "nn.conv2d",
        "padding=[0, 0, 0, 0]",
        "nn.relu",
    ]
    assert picture.dot == (
        "digraph {\n"
        "  node [shape=box, style=filled, fontname=monospace]\n"
        '  n0 [label="%x\\nTensor[(1, 3, 8, 8), float32]", fillcolor="#d5f0d5"]\n'
        '  n1 [label="%w", fillcolor="#d5f0d5"]\n'
        '  n2 [label="nn.conv2d\\npadding=[0, 0, 0, 0]", fillcolor="#dbe9f6"]\n'
        '  n3 [label="nn.relu", fillcolor="#dbe9f6"]\n'
        "  n0 -> n2\n"
        "  n1 -> n2\n"
        "  n2 -> n3\n"
        "}\n"
    )


def test_a_composite_is_a_frame_that_the_data_flows_through() -> None:
    dot = relay.viz(composite()).dot
    assert 'subgraph cluster_n0 { label="dnnl.conv_relu"' in dot
    names = dict(re.findall(r'(n\d+) \[label="([^"\\]*)', dot))
    edges = [(names[a], names[b]) for a, b in re.findall(r"(n\d+) -> (n\d+)", dot)]
    assert ("%x", "%FunctionVar_0_0") in edges
    assert ("nn.conv2d", "nn.relu") in edges


def test_a_function_called_twice_is_drawn_once() -> None:
    p, x = relay.var("p"), relay.var("x")
    double = relay.Function([p], relay.add(p, p))
    dot = relay.viz(double(double(x))).dot
    assert dot.count('label="add"') == 1
    assert dot.count('label="call"') == 2


def test_a_module_has_a_frame_for_each_function() -> None:
    module = eqsat.IRModule({"main": relay.Function([], relay.const(1)), "other": relay.Function([], relay.const(2))})
    assert [text for text in texts(relay.viz(module).svg) if text.startswith("@")] == ["@main", "@other"]


def test_branches_are_frames() -> None:
    x = relay.var("x")
    dot = relay.viz(relay.If(relay.var("c"), relay.nn.relu(x), relay.tanh(x))).dot
    assert [label for label in ("then", "else") if f'{{ label="{label}"' in dot] == ["then", "else"]
    assert '[label="cond"]' in dot


def test_an_operator_that_is_a_value_has_a_box() -> None:
    dot = relay.viz(relay.Tuple([relay.op.get("add"), relay.Function([], relay.op.get("tanh"))])).dot
    assert 'label="add"' in dot
    assert 'label="tanh"' in dot


def test_text_is_escaped() -> None:
    picture = relay.viz(relay.nn.relu(relay.var('<&>"\x00')))
    assert texts(picture.svg)[0] == '%<&>"\N{REPLACEMENT CHARACTER}'
    assert 'label="%<&>\\"' in picture.dot


def test_jupyter_shows_it() -> None:
    picture = relay.viz(conv_relu())
    assert picture._repr_svg_() == picture.svg
    assert picture.svg in picture._repr_html_()


def test_save(tmp_path: Path) -> None:
    picture = relay.viz(conv_relu())
    for suffix, start in {".svg": "<svg", ".dot": "digraph", ".html": "<div"}.items():
        path = tmp_path / f"picture{suffix}"
        picture.save(path)
        assert path.read_text(encoding="utf-8").startswith(start)
    with pytest.raises(ArgumentError, match="suffix"):
        picture.save(tmp_path / "picture.png")


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(ArgumentError, match="viz draws"):
        relay.viz(3)  # type: ignore[arg-type]


def test_data_flows_downwards() -> None:
    picture = relay.viz(composite())
    arrange(picture.root, picture.edges)
    assert all(edge.source.y + edge.source.height < edge.target.y for edge in picture.edges)


@settings(max_examples=100, deadline=None)
@given(exprs())
def test_boxes_stand_inside_their_frame_and_apart(expr: relay.Expr) -> None:
    picture = relay.viz(expr)
    ElementTree.fromstring(picture.svg)
    frames = [picture.root]
    for frame in frames:
        frames += frame.children
        for index, box in enumerate(frame.children):
            assert frame.x <= box.x
            assert box.x + box.width <= frame.x + frame.width
            assert frame.y <= box.y
            assert box.y + box.height <= frame.y + frame.height
            assert not any(overlap(box, other) for other in frame.children[:index])


def test_large_graphs() -> None:
    chain: relay.Expr = relay.var("x")
    for _ in range(20_000):
        chain = relay.nn.relu(chain)
    assert relay.viz(chain).svg.count("<rect") == 20_001
