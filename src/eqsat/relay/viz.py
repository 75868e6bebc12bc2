"""Pictures of graphs: ``relay.viz(expr)`` returns a picture as DOT and SVG, which notebooks show.

Functions and branches are frames. A function that is called in one place is drawn as part of the data flow, under its
``Composite`` name if it has one: arguments lead to its parameters, and its body leads on.
"""

from __future__ import annotations

from functools import cached_property
from html import escape
from itertools import chain
from pathlib import Path

from eqsat.errors import ArgumentError
from eqsat.markup import Markup
from eqsat.notebook import page
from eqsat.relay.adt import Constructor, Match
from eqsat.relay.blocks import Block, Layout
from eqsat.relay.expr import Call, Constant, Expr, Function, GlobalVar, If, Let, Op, TupleGetItem, Var
from eqsat.relay.layered import MARGIN, TITLE, Arrow, Box, arrange
from eqsat.relay.literal import scalar_text, string_text
from eqsat.relay.metadata import MetadataWriter, call_attributes
from eqsat.relay.module import IRModule
from eqsat.relay.visitor import post_order

_COLOURS = {
    "frame": "#fdf6e3",
    "branch": "#eef7ee",
    "operator": "#dbe9f6",
    "variable": "#d5f0d5",
    "constant": "#eeeeee",
    "other": "#ffffff",
}
_LONGEST = 48
_TITLES = ("Composite", "Compiler", "PartitionedFromPattern")


def viz(graph: Expr | IRModule) -> Picture:
    """Return a picture of an expression, or of all functions of a module."""
    scene = _Scene()
    if isinstance(graph, IRModule):
        for variable, function in graph.functions.items():
            scene.add(function, f"@{variable.name_hint}")
    elif isinstance(graph, Expr):
        scene.add(graph, "fn")
    else:
        raise ArgumentError(f"viz draws an expression or a module, not {graph!r}")
    return Picture(graph, scene.root, scene.edges, scene.nodes)


class Picture:
    """A picture of a graph: :attr:`dot` is its source for Graphviz, :attr:`svg` an SVG document; notebooks show a page.

    ``graph`` is the graph; ``root`` is the box that contains all others; ``nodes`` maps each box that is not a frame to
    the node that it shows: the box of the result of a function to its body.
    """

    def __init__(self, graph: Expr | IRModule, root: Box, edges: list[Arrow], nodes: dict[Box, Expr]):
        self.graph = graph
        self.root = root
        self.edges = edges
        self.nodes = nodes

    @cached_property
    def dot(self) -> str:
        """The picture in Graphviz's language."""
        names: dict[Box, str] = {}
        lines = ["digraph {", "  node [shape=box, style=filled, fontname=monospace]"]
        stack: list[Box | str] = list(reversed(self.root.children))
        while stack:
            box = stack.pop()
            if isinstance(box, str):
                lines.append(box)
                continue
            name = names[box] = f"n{len(names)}"
            indent = "  " * box.depth
            label = string_text("\n".join(box.lines))
            if not box.children:
                lines.append(f'{indent}{name} [label={label}, fillcolor="{_COLOURS[box.kind]}"]')
                continue
            lines.append(f"{indent}subgraph cluster_{name} {{ label={label}")
            stack += [f"{indent}}}", *reversed(box.children)]
        for edge in self.edges:
            label = f" [label={string_text(edge.label)}]" if edge.label else ""
            lines.append(f"  {names[edge.source]} -> {names[edge.target]}{label}")
        return "\n".join([*lines, "}\n"])

    @cached_property
    def svg(self) -> str:
        """The picture as an SVG document."""
        boxes = arrange(self.root, self.edges)
        width, height = max(self.root.width, 1), max(self.root.height, 1)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="monospace" font-size="12">',
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0 L8 4 L0 8 z"/></marker></defs>',
        ]
        parts += [_frame_svg(box) for box in boxes[1:] if box.children]
        parts += [_edge_svg(edge) for edge in self.edges]
        parts += [_node_svg(box) for box in boxes[1:] if not box.children]
        return "\n".join([*parts, "</svg>\n"])

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return page(self.graph, "Picture", Markup(self._framed))

    @property
    def _framed(self) -> str:
        return f'<div style="overflow:auto;max-height:80vh">{self.svg}</div>'

    def save(self, path: str | Path) -> None:
        """Write the picture to ``path``: SVG, DOT or HTML, by its suffix."""
        forms = {".svg": lambda: self.svg, ".dot": lambda: self.dot, ".html": lambda: self._framed}
        form = forms.get(Path(path).suffix)
        if form is None:
            raise ArgumentError(f"cannot save a picture as {str(path)!r}: the suffix must be one of {list(forms)}")
        Path(path).write_text(form(), encoding="utf-8")


class _Scene:
    """Collects the boxes of expressions; ``outputs`` gives the box whose data a node is."""

    def __init__(self) -> None:
        self.root = Box([], "frame")
        self.edges: list[Arrow] = []
        self.nodes: dict[Box, Expr] = {}

    def add(self, root: Expr, title: str) -> None:
        """Draw ``root``; ``title`` is the frame's when it is a function without a name of its own."""
        self.layout = Layout(root)
        self.outputs: dict[Expr, Box] = {}
        order = post_order(root)
        self.frames: dict[Block, Box] = {self.layout.top: self.root}
        self.drawn = {root, *chain.from_iterable(map(_operands, order))}
        self.inlined = {
            node.op: node
            for node in order
            if isinstance(node, Call)
            and isinstance(node.op, Function)
            and self.layout.is_unique(node.op)
            and len(node.args) == len(node.op.params)
        }
        for node in reversed(order):
            self._frame(node, title if node is root else "fn")
        for node in order:
            self._draw(node, root)
        for frame in reversed(list(self.frames.values())):
            if not frame.children and frame.parent is not None:
                frame.parent.children = [box for box in frame.parent.children if box is not frame]

    def _frame(self, node: Expr, title: str) -> None:
        around = self.frames[self.layout.place[node]]
        blocks = self.layout.inner.get(node, ())
        if isinstance(node, Function):
            titles = [node.attrs[key] for key in _TITLES if key in node.attrs]
            self.frames[blocks[0]] = Box([_short(str(titles[0] if titles else title))], "frame", around)
        elif isinstance(node, If):
            for block, word in zip(blocks, ("then", "else"), strict=True):
                self.frames[block] = Box([word], "branch", around)
        elif isinstance(node, Match):
            for block, clause in zip(blocks, node.clauses, strict=True):
                self.frames[block] = Box([_short(clause.lhs.text(lambda var: var.name_hint))], "branch", around)
        else:
            self.frames.update(dict.fromkeys(blocks, around))

    def _draw(self, node: Expr, root: Expr) -> None:
        outputs = self.outputs
        if isinstance(node, Let):
            self._connect(node.value, outputs[node.var])
            outputs[node] = outputs[node.body]
        elif isinstance(node, Match):
            box = outputs[node] = self._box(node)
            for variable in node.binds:
                self._connect(node.data, outputs[variable])
            for clause in node.clauses:
                self._connect(clause.rhs, box)
        elif isinstance(node, Function) and (node in self.inlined or node is root):
            outputs[node] = outputs[node.body]
        elif isinstance(node, Function):
            outputs[node] = Box(["result"], "other", self.frames[self.layout.inner[node][0]])
            self.nodes[outputs[node]] = node.body
            self._connect(node.body, outputs[node])
        elif isinstance(node, Call) and isinstance(node.op, Function) and node.op in self.inlined:
            for arg, param in zip(node.args, node.op.params, strict=True):
                self._connect(arg, outputs[param])
            outputs[node] = outputs[node.op]
        elif node in self.drawn:
            box = outputs[node] = self._box(node)
            labels = ("cond", "then", "else") if isinstance(node, If) else ()
            for index, child in enumerate(_operands(node)):
                self._connect(child, box, labels[index] if labels else "")

    def _connect(self, source: Expr, target: Box, label: str = "") -> None:
        self.edges.append(Arrow(self.outputs[source], target, label))

    def _box(self, node: Expr) -> Box:
        lines, kind = _label(node)
        hint = "" if node._checked_type is None else str(node._checked_type)
        box = Box([_short(line) for line in lines if line], kind, self.frames[self.layout.place[node]], hint)
        self.nodes[box] = node
        return box


def _operands(node: Expr) -> tuple[Expr, ...]:
    """The children whose boxes lead to the node's; an operator that is called is named in the call's own box."""
    return node.args if isinstance(node, Call) and isinstance(node.op, Op) else node.children()


def _label(node: Expr) -> tuple[list[str], str]:
    """The text of a node's box and its kind."""
    if isinstance(node, Var):
        return [f"%{node.name_hint}", str(node.type_annotation or "")], "variable"
    if isinstance(node, Constant):
        shape = ", ".join(map(str, node.data.shape))
        return [scalar_text(node.data) or f"{node.data.dtype} ({shape})"], "constant"
    if isinstance(node, Call):
        told = [each for each in call_attributes(node, MetadataWriter()) if not each.endswith("=None")]
        if isinstance(node.op, Op):
            return [node.op.name, *told], "operator"
        return [f"call @{node.op.name_hint}" if isinstance(node.op, GlobalVar) else "call", *told], "operator"
    if isinstance(node, (Constructor, GlobalVar)):
        return [f"{'@' if isinstance(node, GlobalVar) else ''}{node.name_hint}"], "other"
    if isinstance(node, Op):
        return [node.name], "operator"
    if isinstance(node, TupleGetItem):
        return [f".{node.index}"], "other"
    return [node.kind], "other"


def _short(text: str) -> str:
    """One line of printable characters, not too long."""
    line = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def _frame_svg(box: Box) -> str:
    title = escape(box.lines[0])
    return (
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="6" '
        f'fill="{_COLOURS[box.kind]}" stroke="#999"/>'
        f'<text x="{box.x + MARGIN:.1f}" y="{box.y + TITLE:.1f}" font-weight="bold">{title}</text>'
    )


def _node_svg(box: Box) -> str:
    centre = box.x + box.width / 2
    texts = "".join(
        f'<text x="{centre:.1f}" y="{box.y + 18 + 16 * row:.1f}" text-anchor="middle">{escape(line)}</text>'
        for row, line in enumerate(box.lines)
    )
    hint = f"<title>{escape(box.hint)}</title>" if box.hint else ""
    return (
        f'<g>{hint}<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="4" '
        f'fill="{_COLOURS[box.kind]}" stroke="#555"/>{texts}</g>'
    )


def _edge_svg(edge: Arrow) -> str:
    x0, y0 = edge.source.x + edge.source.width / 2, edge.source.y + edge.source.height
    x1, y1 = edge.target.x + edge.target.width / 2, edge.target.y
    bend = max(12.0, (y1 - y0) / 2)
    path = f"M{x0:.1f} {y0:.1f} C{x0:.1f} {y0 + bend:.1f} {x1:.1f} {y1 - bend:.1f} {x1:.1f} {y1:.1f}"
    text = ""
    if edge.label:
        text = f'<text x="{(x0 + x1) / 2 + 4:.1f}" y="{(y0 + y1) / 2:.1f}">{escape(edge.label)}</text>'
    return f'<path d="{path}" fill="none" stroke="#555" marker-end="url(#tip)"/>{text}'
