"""Fusions of four kinds, each written in four ways: which are found, by eqsat and by Inductor's own pattern matcher.

    .venv/bin/python benchmarks/torch_fusions.py

Each fusion is one pair of functions, what to search for and the kernel that takes its place; each custom operator that
graphs have is one more, the operator and what it computes. Both matchers are given the same pairs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._functorch.aot_autograd import aot_export_joint_simple
from torch.nn import functional

import eqsat.torch
from eqsat.rules import default

WIDTH, EPSILON, SCALE = 64, 1e-6, 0.125


def _operator(signature: str, compute: Callable[..., Any]) -> Any:
    """A custom operator, of which PyTorch's compilers know nothing but the types that it gives."""
    name = signature.split("(")[0]
    if not hasattr(torch.ops.eqsat_fusions, name):
        LIBRARY.define(signature)
        LIBRARY.impl(name, compute, "CompositeExplicitAutograd")
    return getattr(torch.ops.eqsat_fusions, name).default


LIBRARY = torch.library.Library("eqsat_fusions", "FRAGMENT")


# ---- what is searched for


def silu_mul(x: Any, y: Any) -> Any:
    return functional.silu(x) * y


def norm(x: Any, weight: Any) -> Any:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON) * weight


def quantize(x: Any, scale: Any) -> Any:
    return torch.clamp(torch.round(x / scale), -128, 127).to(torch.int8)


def norm_quantize(x: Any, weight: Any, scale: Any) -> Any:
    return quantize(norm(x, weight), scale)


def rotate_half(x: Any) -> Any:
    return torch.cat([-x[..., WIDTH // 2 :], x[..., : WIDTH // 2]], -1)


def rotary(x: Any, cos: Any, sin: Any) -> Any:
    return x * cos + rotate_half(x) * sin


def softmax(x: Any) -> Any:
    return torch.softmax(x, -1)


def attention(query: Any, key: Any, value: Any) -> Any:
    return softmax(query @ key.transpose(-2, -1) * SCALE) @ value


_silu = _operator("silu(Tensor x) -> Tensor", lambda x: functional.silu(x))
_norm = _operator("norm(Tensor x, Tensor weight) -> Tensor", norm)
_quantize = _operator("quantize(Tensor x, Tensor scale) -> Tensor", quantize)
_rotate_half = _operator("rotate_half(Tensor x) -> Tensor", rotate_half)
_softmax = _operator("softmax(Tensor x) -> Tensor", softmax)


# ---- other ways to write it


def _norm_by_root(x: Any, weight: Any) -> Any:
    return weight * (x / torch.sqrt((x * x).mean(-1, keepdim=True) + EPSILON))


def _rotary_in_halves(x: Any, cos: Any, sin: Any) -> Any:
    half = WIDTH // 2
    first, second = x.chunk(2, -1)
    low = first * cos[..., :half] - second * sin[..., :half]
    return torch.cat([low, second * cos[..., half:] + first * sin[..., half:]], -1)


def _rotary_by_chunks(x: Any, cos: Any, sin: Any) -> Any:
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1) * sin + cos * x


def _attention_by_exponentials(query: Any, key: Any, value: Any) -> Any:
    scores = query @ key.transpose(-2, -1) / 8
    exponentials = torch.exp(scores - scores.amax(-1, keepdim=True))
    return exponentials / exponentials.sum(-1, keepdim=True) @ value


@dataclass(frozen=True)
class Fusion:
    """A kernel, what it computes, and other ways to write that.

    Args:
        name: What it is called.
        search: What to search for.
        kernel: The operator that takes its place.
        inputs: What it takes.
        spellings: Functions that compute the same.
        operators: Custom operators of the spellings: what each computes, and what it takes.
    """

    name: str
    search: Callable[..., Any]
    kernel: Any
    inputs: Sequence[torch.Tensor]
    spellings: Sequence[Callable[..., Any]]
    operators: Sequence[tuple[Any, Callable[..., Any], Sequence[torch.Tensor]]]


def _rows() -> torch.Tensor:
    return torch.randn(4, WIDTH)


def _heads() -> torch.Tensor:
    return torch.randn(2, 4, 16, WIDTH)


def fusions() -> list[Fusion]:
    """The four fusions."""
    torch.manual_seed(0)
    weight, scale, angles = torch.rand(WIDTH) + 0.5, torch.tensor(0.02), torch.randn(16, WIDTH)
    return [
        Fusion(
            "SiLU-mul",
            silu_mul,
            _operator("silu_mul(Tensor x, Tensor y) -> Tensor", silu_mul),
            [_rows(), _rows()],
            [
                silu_mul,
                lambda x, y: y * (x * torch.sigmoid(x)),
                lambda x, y: x / (1 + torch.exp(-x)) * y,
                lambda x, y: _silu(x) * y,
            ],
            [(_silu, functional.silu, [_rows()])],
        ),
        Fusion(
            "RMSNorm-quantize",
            norm_quantize,
            _operator("norm_quantize(Tensor x, Tensor weight, Tensor scale) -> Tensor", norm_quantize),
            [_rows(), weight, scale],
            [
                lambda x, w, s: quantize(functional.rms_norm(x, (WIDTH,), w, EPSILON), s),
                lambda x, w, s: quantize(_norm(x, w), s),
                lambda x, w, s: _quantize(_norm_by_root(x, w), s),
                lambda x, w, s: _quantize(_norm(x, w), s),
            ],
            [(_norm, norm, [_rows(), weight]), (_quantize, quantize, [_rows(), scale])],
        ),
        Fusion(
            "rotary",
            rotary,
            _operator("rotary(Tensor x, Tensor cos, Tensor sin) -> Tensor", rotary),
            [_heads(), angles.cos(), angles.sin()],
            [rotary, _rotary_by_chunks, _rotary_in_halves, lambda x, c, s: x * c + _rotate_half(x) * s],
            [(_rotate_half, rotate_half, [_heads()])],
        ),
        Fusion(
            "attention",
            attention,
            _operator("attention(Tensor q, Tensor k, Tensor v) -> Tensor", attention),
            [_heads(), _heads(), _heads()],
            [
                functional.scaled_dot_product_attention,
                lambda q, k, v: torch.softmax((q / 8) @ k.transpose(-2, -1), -1) @ v,
                lambda q, k, v: _softmax(torch.einsum("bhqd,bhkd->bhqk", q, k) * SCALE) @ v,
                _attention_by_exponentials,
            ],
            [(_softmax, softmax, [torch.randn(2, 4, 16, 16)])],
        ),
    ]


def has(graph: torch.fx.Graph, kernel: Any) -> bool:
    """Whether a graph calls a kernel, and nothing else that computes."""
    return [node.target for node in graph.nodes if node.op == "call_function"] == [kernel]


def found_by_rules(fusion: Fusion) -> list[bool]:
    """Which spellings become the kernel by rules of eqsat."""
    rules = [eqsat.torch.rule(f"use-{fusion.name}", fusion.search, fusion.kernel, fusion.inputs)]
    for operator, computes, inputs in fusion.operators:
        rules.append(eqsat.torch.rule(str(operator), operator, computes, inputs))
    optimize = eqsat.torch.graph_pass([default, *rules])
    found = []
    for spelling in fusion.spellings:
        traced = _traced(spelling, fusion.inputs)
        optimize(traced)
        found.append(has(traced.graph, fusion.kernel))
        expected, (given,) = spelling(*fusion.inputs), traced(*fusion.inputs)
        tolerance = 1.0 if expected.dtype is torch.int8 else 1e-4
        torch.testing.assert_close(given, expected, rtol=0, atol=tolerance, check_dtype=True)
    return found


def found_by_inductor(fusion: Fusion) -> list[bool]:
    """Which spellings become the kernel by Inductor's pattern matcher."""
    from torch._inductor.decomposition import select_decomp_table
    from torch._inductor.pattern_matcher import PatternMatcherPass, fwd_only, register_replacement

    passes = []
    for search, replacement, inputs in [*fusion.operators, (fusion.search, fusion.kernel, fusion.inputs)]:
        passes.append(PatternMatcherPass())
        register_replacement(_named(search, inputs), _named(replacement, inputs), list(inputs), fwd_only, passes[-1])
    found = []
    for spelling in fusion.spellings:
        traced = _traced(spelling, fusion.inputs, select_decomp_table())
        for each in passes:
            each.apply(traced.graph)
        traced.graph.eliminate_dead_code()
        found.append(has(traced.graph, fusion.kernel))
    return found


def _traced(function: Callable[..., Any], inputs: Sequence[Any], decompositions: Any = None) -> torch.fx.GraphModule:
    """A graph as backends of ``torch.compile`` get it."""
    module: torch.fx.GraphModule = aot_export_joint_simple(
        lambda *given: (function(*given),), tuple(inputs), trace_joint=False, decompositions=decompositions
    )
    return module


def _named(function: Callable[..., Any], inputs: Sequence[Any]) -> Callable[..., Any]:
    """A function whose parameters have names, as the matcher wants it."""
    names = ", ".join(f"x{index}" for index in range(len(inputs)))
    made: Callable[..., Any] = eval(f"lambda {names}: function({names})", {"function": function})
    return made


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    print(f"{'fusion':18} {'eqsat':>12} {'Inductor':>12}   spellings that each finds")
    for fusion in fusions():
        ours, theirs = found_by_rules(fusion), found_by_inductor(fusion)
        marks = "  ".join("".join("x" if each else "." for each in found) for found in (ours, theirs))
        print(f"{fusion.name:18} {sum(ours):8} of 4 {sum(theirs):8} of 4   {marks}", flush=True)


if __name__ == "__main__":
    main()
