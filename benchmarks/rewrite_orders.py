"""Classical graphs on which the order of rewriting decides: every order of the same rules beside saturation.

    python benchmarks/rewrite_orders.py [--plots DIR] [CASE ...]

Prints for each case the table of :func:`eqsat.compare_orders` under the operator count, and at the end a line a case:
how many orders reach what saturation reaches, how many loop, and the time of saturation as a multiple of one order's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np

from eqsat import OrderComparison, compare_orders, composite_rules, relay
from eqsat.relay import nn
from eqsat.relay.expr import Expr, Tuple
from eqsat.relay.op import left_shift, tanh, transpose
from eqsat.rules import (
    RuleSet,
    attrs_of,
    compute,
    constants,
    like,
    rewrite,
    type_of,
    value_of,
    variables,
    when,
)
from eqsat.rules.axes import inverse_order, permutation
from eqsat.rules.linear import linear as linear_rules
from eqsat.rules.shape import shape as shape_rules
from eqsat.rules.values import one

x, y, z = variables("x y z")
a, s = constants("a s")


@dataclass(frozen=True)
class Case:
    """A graph, and rules or phases of rules for it.

    Args:
        what: what goes wrong, in a line.
        graph: builds the graph.
        rules: rules whose orders are tried, or rule sets whose phase orders are.
    """

    what: str
    graph: Callable[[], Expr]
    rules: tuple[Any, ...]

    def compare(self, **options: Any) -> OrderComparison:
        """Every order beside saturation, under the operator count."""
        return compare_orders(self.graph(), self.rules, **options)


# ---- (a * 2) / 2


def double_and_halve() -> Expr:
    v, two = relay.var("v", shape=(8,), dtype="int32"), relay.const(2, "int32")
    return (v * two) / two


strength = RuleSet(
    "strength",
    [
        # x 2 = x << 1
        rewrite(
            "double-is-shift",
            x * a,
            left_shift(x, relay.const(1, "int32")),
            when(lambda value: bool(np.all(value == 2)), value_of(a)),
        )
    ],
)
cancel = RuleSet(
    "cancel",
    [
        # (x y) / z = x (y / z), for a product that does not overflow and a z that divides y
        rewrite("divide-one-factor", (x * y) / z, x * (y / z)),
        rewrite("multiply-one", x * one, x),
    ],
)


# ---- two composites that overlap


def alternating_chains() -> Expr:
    v = relay.var("v", shape=(2, 8))
    return Tuple([nn.relu(tanh(nn.relu(tanh(v)))), tanh(nn.relu(tanh(nn.relu(v))))])


overlapping = tuple(composite_rules([("tanh-relu", nn.relu(tanh(x))), ("relu-tanh", tanh(nn.relu(x)))]))


# ---- distribute where products are there already, factor where they are not


def products_to_share() -> Expr:
    p, q, r, t, u = (relay.var(name, shape=(4,)) for name in "pqrtu")
    return Tuple([p * r, q * r, (p + q) * r, t * r + u * r])


sharing = (
    rewrite("distribute", (x + y) * z, x * z + y * z),
    rewrite("factor", x * z + y * z, (x + y) * z),
)


# ---- transposes around elementwise operators


def inverse_axes(attrs: Any, ty: Any) -> Any:
    return inverse_order(permutation(attrs, len(ty.shape)))


def layout_change() -> Expr:
    v, w = relay.var("v", shape=(1, 8, 8, 3)), relay.var("w", shape=(1, 3, 8, 8))
    v_nchw = transpose(v, axes=(0, 3, 1, 2))
    pays = transpose(nn.relu(v_nchw) + transpose(relay.var("u", shape=(1, 8, 8, 3)), axes=(0, 3, 1, 2)), (0, 2, 3, 1))
    costs = tanh(v_nchw + w)
    return Tuple([pays, costs])


moved = transpose(x)
transposes = (
    # relu(x') = relu(x)'
    rewrite("relu-under-transpose", nn.relu(moved), like(moved, nn.relu(x))),
    # x' + y = (x + y")' where " undoes '
    rewrite(
        "add-under-transpose",
        moved + y,
        like(moved, x + transpose(y, axes=compute(inverse_axes, attrs_of(moved), type_of(x)))),
        when(lambda left, right: left == right, type_of(moved), type_of(y)),
    ),
    *shape_rules.only("transpose-transpose", "transpose-nothing"),
)


# ---- a scale after a fused activation


def scaled_activation() -> Expr:
    v = relay.var("v", shape=(1, 3, 8, 8))
    w = relay.const(np.linspace(-1, 1, 4 * 3 * 9, dtype="float32").reshape(4, 3, 3, 3))
    scale = relay.const(np.array([0.5, 1.5, 2, 3], "float32").reshape(4, 1, 1))
    return nn.relu(nn.conv2d(v, w, padding=1)) * scale


fold_scale = RuleSet(
    "fold-scale",
    [
        # relu(x) s = relu(x s) where s > 0
        rewrite(
            "scale-before-relu",
            nn.relu(x) * s,
            nn.relu(x * s),
            when(lambda value: bool(np.all(value > 0)), value_of(s)),
        ),
        linear_rules.only("scale-into-conv2d"),
    ],
)
fuse = RuleSet("fuse", [composite_rules([("conv-relu", nn.relu(nn.conv2d(x, y)))])])

CASES = {
    "double-and-halve": Case("a shift cannot be divided away", double_and_halve, (strength, cancel)),
    "composites": Case("one composite takes what the other needs", alternating_chains, overlapping),
    "share-products": Case("what helps one sum hurts the other", products_to_share, sharing),
    "transposes": Case("a transpose moved down pays in one place only", layout_change, transposes),
    "conv-scale": Case("no scale goes into a fused convolution", scaled_activation, (fold_scale, fuse)),
}


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(CASES)))
@click.option("--plots", type=click.Path(file_okay=False, path_type=Path), help="Write a picture of each case here.")
def main(names: tuple[str, ...], plots: Path | None) -> None:
    """Compare rewrite orders on classical graphs."""
    summary = []
    for name in names or CASES:
        case = CASES[name]
        comparison = case.compare()
        print(f"== {name}: {case.what}\n{comparison}\n")
        if plots is not None:
            plots.mkdir(parents=True, exist_ok=True)
            comparison.plot(plots / f"{name}.svg")
        ratio = comparison.saturation.seconds / median(row.seconds for row in comparison.rows)
        summary.append(
            f"{name:<18} saturation {comparison.saturation.cost:g}, runs {comparison.best.cost:g} to"
            f" {comparison.worst.cost:g}: {len(comparison.ties)} of {len(comparison.rows)} tie,"
            f" {len(comparison.looped)} loop; time {ratio:.1f} x one order"
        )
    print("\n".join(summary))


if __name__ == "__main__":
    main()
