"""Our results are those that Relay v0.18 gave for the same graphs and patterns."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import eqsat
from eqsat import ir, relay
from eqsat.errors import EqsatError
from eqsat.relay import dataflow_pattern as dp
from eqsat.relay.visitor import post_order

from .oracle_callbacks import CALLBACKS

CORPUS = Path(__file__).parents[2] / "data" / "relay_oracle"
CHECKS: dict[str, Callable[[Any], bool]] = {
    "reject_all": lambda root: False,
    "root_is_add": lambda root: _callee(root) == "add",
    "root_not_relu": lambda root: _callee(root) != "nn.relu",
}
COMPARED_ATTRS = {
    "nn.leaky_relu": ["alpha"],
    "nn.conv2d": [
        "strides",
        "padding",
        "dilation",
        "groups",
        "channels",
        "kernel_size",
        "data_layout",
        "kernel_layout",
    ],
    "nn.bias_add": ["axis"],
    "nn.dense": ["units"],
    "nn.batch_norm": ["axis", "epsilon", "center", "scale"],
    "nn.softmax": ["axis"],
    "concatenate": ["axis"],
    "split": ["indices_or_sections", "axis"],
    "transpose": ["axes"],
    "reshape": ["newshape"],
    "expand_dims": ["axis", "num_newaxis"],
    "clip": ["a_min", "a_max"],
    "cast": ["dtype"],
}


def _callee(root: Any) -> str | None:
    return root.op.name if isinstance(root, relay.Call) and isinstance(root.op, relay.Op) else None


def cases(kind: str) -> Iterator[dict[str, Any]]:
    with lzma.open(CORPUS / f"{kind}.jsonl.xz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def build_graph(nodes: list[Any], same: dict[int, relay.Expr] | None = None) -> list[relay.Expr]:
    built: list[relay.Expr] = []
    for index, node in enumerate(nodes):
        built.append((same or {}).get(index) or _build_node(node, built))
    return built


def _build_node(node: list[Any], built: list[relay.Expr]) -> relay.Expr:
    match node:
        case ["var", name, None, _]:
            return relay.var(name)
        case ["var", name, shape, dtype]:
            return relay.var(name, shape=tuple(shape), dtype=dtype)
        case ["const", dtype, shape, values]:
            return relay.const(np.array(values, dtype).reshape(shape))
        case ["tuple", fields]:
            return relay.Tuple([built[i] for i in fields])
        case ["tgi", source, index]:
            return relay.TupleGetItem(built[source], index)
        case ["call", name, args, attrs]:
            builder: Any = relay.op
            for part in name.split("."):
                builder = getattr(builder, part)
            result = builder(*[built[i] for i in args], **attrs)
            return result.astuple() if isinstance(result, relay.TupleWrapper) else result
    raise ValueError(node)


def build_pattern(nodes: list[Any], exprs: list[relay.Expr]) -> dp.DFPattern:
    built: list[Any] = []
    for node in nodes:
        built.append(_build_pattern_node(node, built, exprs))
    return built[-1]


def _build_pattern_node(node: list[Any], built: list[Any], exprs: list[relay.Expr]) -> dp.DFPattern:
    match node:
        case ["wildcard"]:
            return dp.wildcard()
        case ["var", name]:
            return dp.is_var(name)
        case ["constant"]:
            return dp.is_constant()
        case ["expr_const", dtype, shape, values]:
            return dp.is_expr(relay.const(np.array(values, dtype).reshape(shape)))
        case ["expr_node", index]:
            return dp.is_expr(exprs[index])
        case ["op", name]:
            return dp.is_op(name)
        case ["call", callee, None]:
            return built[callee](None)
        case ["call", callee, args]:
            return built[callee](*[built[i] for i in args])
        case ["tuple", fields]:
            return dp.is_tuple(fields and [built[i] for i in fields])
        case ["tgi", source, index]:
            return dp.is_tuple_get_item(built[source], index)
        case ["alt", left, right]:
            return built[left] | built[right]
        case ["optional", base, name]:
            return built[base].optional(lambda p: dp.is_op(name)(p))
        case ["attr", base, attrs]:
            return built[base].has_attr(attrs)
        case ["dtype", base, dtype]:
            return built[base].has_dtype(dtype)
        case ["shape", base, shape]:
            return built[base].has_shape(tuple(shape))
        case ["dominates", parent, path, child]:
            return built[child].dominates(built[parent], built[path])
    raise ValueError(node)


class Written:
    """One list of nodes in the corpus' form; a function body is a list of its own."""

    def __init__(self, outer: Written | None = None):
        self.nodes: list[Any] = []
        self.index: dict[relay.Expr, int] = {}
        self.outer = outer

    def put(self, expr: relay.Expr) -> int:
        for node in post_order(expr, stop=self.index, children=self.operands):
            form = self.form(node)  # a function puts its free variables into this list first
            if node not in self.index:
                self.nodes.append(form)
                self.index[node] = len(self.nodes) - 1
        return self.index[expr]

    @staticmethod
    def operands(node: relay.Expr) -> tuple[relay.Expr, ...]:
        if isinstance(node, relay.Function):
            return ()
        if isinstance(node, relay.Call) and isinstance(node.op, relay.Op):
            return node.args
        return node.children()

    def form(self, node: relay.Expr) -> list[Any]:
        match node:
            case relay.Var() if self.outer is not None:
                return ["outer", self.outer.put(node)]
            case relay.Var():
                return variable_form(node)
            case relay.Constant():
                values = node.data.numpy()
                return ["const", str(values.dtype), list(values.shape), values.reshape(-1).tolist()]
            case relay.Tuple():
                return ["tuple", [self.index[field] for field in node.fields]]
            case relay.TupleGetItem():
                return ["tgi", self.index[node.tuple_value], node.index]
            case relay.Function():
                return self.function_form(node)
            case relay.Op():
                return ["op", node.name]
            case relay.Call(op=relay.Op(name=name)):
                attrs = {key: node.attrs[key] for key in COMPARED_ATTRS.get(name, [])} if node.attrs else {}
                return ["call", name, [self.index[arg] for arg in node.args], attrs]
            case relay.Call():
                kind = "callfn" if isinstance(node.op, relay.Function) else "callexpr"
                return [kind, self.index[node.op], [self.index[arg] for arg in node.args]]
        raise ValueError(node)

    def function_form(self, function: relay.Function) -> list[Any]:
        body = Written(self)
        for param in function.params:
            body.index[param] = len(body.nodes)
            body.nodes.append(variable_form(param))
        root = body.put(function.body)
        if root != len(body.nodes) - 1 or root < len(function.params):
            body.nodes.append(["ref", root])
        attrs = {k: function.attrs[k] for k in ("PartitionedFromPattern", "Composite") if k in function.attrs}
        return ["fn", [param.name_hint for param in function.params], body.nodes, attrs]


def variable_form(variable: relay.Var) -> list[Any]:
    ty = variable.type_annotation
    shape, dtype = (list(ty.shape), ty.dtype) if isinstance(ty, relay.TensorType) else (None, None)
    return ["var", variable.name_hint, shape, dtype]


def write(expr: relay.Expr) -> Any:
    written = Written()
    written.put(expr)
    return json.loads(json.dumps(written.nodes))


def outcome(compute: Callable[[], Any]) -> Any:
    try:
        return compute()
    except EqsatError:
        return "error"


def expected(result: Any) -> Any:
    if isinstance(result, list):
        return [expected(item) for item in result]
    return "error" if isinstance(result, str) and result.startswith("error:") else result


def test_match() -> None:
    for case in cases("match"):
        graph = build_graph(case["graph"])
        pattern = build_pattern(case["pattern"], graph)
        found = [outcome(lambda p=pattern, e=node: p.match(e)) for node in graph]
        assert found == expected(case["result"]), case["id"]


def test_partition() -> None:
    for case in cases("partition"):
        graph = build_graph(case["graph"])
        pattern = build_pattern(case["pattern"], graph)
        check = CHECKS.get(case.get("check"), lambda root: True)
        found = outcome(
            lambda p=pattern, g=graph, c=case, check=check: write(p.partition(g[c["outputs"]], c.get("attrs"), check))
        )
        assert found == expected(case["result"]), case["id"]


def test_rewrite() -> None:
    for case in cases("rewrite"):
        root = build_graph(case["graph"])[case["outputs"]]
        callbacks = [CALLBACKS[name]() for name in case["callbacks"]]
        found = outcome(lambda callbacks=callbacks, root=root: write(dp.rewrite(callbacks, root)))
        assert found == expected(case["result"]), case["id"]


def test_merge_composite() -> None:
    for case in cases("merge_composite"):
        graph = build_graph(case["graph"])
        table = [(name, build_pattern(nodes, graph)) for name, nodes in case["table"]]
        main = relay.Function([graph[i] for i in case["params"]], graph[case["outputs"]])
        mod = relay.transform.InferType()(eqsat.IRModule({"main": main}))
        found = outcome(lambda mod=mod, table=table: write(relay.transform.MergeComposite(table)(mod)["main"]))
        assert found == expected(case["result"]), case["id"]


def test_structural_equal() -> None:
    for case in cases("structural_equal"):
        a = build_graph(case["a"])
        b = build_graph(case["b"], {int(j): a[i] for j, i in case["same"].items()})
        left, right = a[case["a_out"]], b[case["b_out"]]
        if case.get("wrap"):
            left = relay.Function([a[i] for i in case["a_params"]], left)
            right = relay.Function([b[i] for i in case["b_params"]], right)
        found = [ir.structural_equal(left, right, map_free_vars) for map_free_vars in (False, True)]
        assert found == case["result"], case["id"]
        for map_free_vars, equal in zip((False, True), found, strict=True):
            hashes = [ir.structural_hash(side, map_free_vars) for side in (left, right)]
            assert not equal or hashes[0] == hashes[1], case["id"]
