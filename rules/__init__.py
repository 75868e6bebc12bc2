"""Rules: which graphs equal which. Each module is about one subject, and each rule reads as an equation.

``default`` is the set that ``eqsat.saturate`` uses; ``sets`` names every set for the command line.

Some of Relay's passes that rewrite graphs have no rules here. FakeQuantizationToInteger and ToMixedPrecision change
values; DenseToSparse and Conv2dToSparse need sparse operators; Legalize and AlterOpLayout depend on a target and are no
equations; CanonicalizeCast undoes sharing; and others move bindings and functions, which an e-graph does not have.
"""

from functools import lru_cache
from typing import Any

from eqsat.egraph.author import (
    above_half,
    above_least,
    attrs_of,
    base,
    birewrite,
    compute,
    constants,
    countable,
    distinct,
    index_of,
    like,
    modest,
    non_constant,
    place_of,
    real,
    refuse,
    rewrite,
    rule,
    single_use,
    successive,
    type_of,
    uses_of,
    value_of,
    variables,
    when,
)
from eqsat.egraph.rule import (
    ComposeChains,
    FoldConstants,
    Injectivity,
    PythonRule,
    Rewrite,
    Rule,
    RuleSet,
    Soundness,
    refer_by_name,
)
from eqsat.rules.activations import IN_SIGHT, activations, gates, recognised, unhalved
from eqsat.rules.affine import affine
from eqsat.rules.algebra import algebra
from eqsat.rules.attended import attended, score_parts
from eqsat.rules.binomials import binomials
from eqsat.rules.blocks import blocks
from eqsat.rules.columns import columns
from eqsat.rules.einsum import notations
from eqsat.rules.gathering import gathering
from eqsat.rules.heads import attention, heads
from eqsat.rules.joined_heads import joined_heads, rotary
from eqsat.rules.joining import joining
from eqsat.rules.kernels import kernels
from eqsat.rules.likes import dynamic, likes
from eqsat.rules.linear import linear
from eqsat.rules.masks import masks, nans
from eqsat.rules.merge import merge
from eqsat.rules.neighbours import neighbours, partly_turned
from eqsat.rules.normalization import normalization
from eqsat.rules.one_hot import in_range
from eqsat.rules.passes import fast_math, lowering
from eqsat.rules.quantized import quantization
from eqsat.rules.ranges import causal_attention, ranges
from eqsat.rules.recurrent import recurrent
from eqsat.rules.reductions import reductions
from eqsat.rules.row_moves import repeating, row_moves, shuffles
from eqsat.rules.rows import rows
from eqsat.rules.scaling import scaling
from eqsat.rules.shape import shape
from eqsat.rules.slices import partitions
from eqsat.rules.spelled import spelled
from eqsat.rules.spreads import spreads
from eqsat.rules.transposes import transposes
from eqsat.rules.triples import triples
from eqsat.rules.turned import turned_anyway
from eqsat.rules.unit_axes import unit_axes
from eqsat.rules.windows import pools, windows
from eqsat.rules.written import written

attending = RuleSet("attending", [attention, masks, attended, causal_attention, joined_heads, rotary, partly_turned])
"""What finds the operators of attention; of use where the result can have them."""

fold = RuleSet("fold", [FoldConstants()])
injectivity = RuleSet("injectivity", [Injectivity()])

_subjects = (
    fold,
    injectivity,
    algebra,
    binomials,
    activations,
    gates,
    shape,
    likes,
    dynamic,
    transposes,
    turned_anyway,
    shuffles,
    repeating,
    unit_axes,
    blocks,
    joining,
    partitions,
    gathering,
    ranges,
    spreads,
    neighbours,
    reductions,
    notations,
    windows,
    pools,
    kernels,
    linear,
    triples,
    columns,
    affine,
    rows,
    row_moves,
    scaling,
    score_parts,
    normalization,
    nans,
    heads,
    masks,
    attended,
    causal_attention,
    joined_heads,
    rotary,
    partly_turned,
    quantization,
    recurrent,
)
_every = RuleSet("every", _subjects)

default = RuleSet("default", _every.sound(Soundness.EXACT, Soundness.ROUNDING))
finite = RuleSet("finite", _every.sound(Soundness.FINITE))

sets: dict[str, RuleSet] = {
    each.name: each for each in (default, finite, merge, fast_math, in_range, lowering, written, spelled, *_subjects)
}
_rules = {rule.name: rule for each in sets.values() for rule in each}


def _rule(name: str) -> Rule:
    """The shipped rule of a name, which pickles hold."""
    return _rules[name]


refer_by_name(_rules.values(), _rule)


def _rule_in_sight(name: str) -> Rule:
    return IN_SIGHT[name]


refer_by_name(IN_SIGHT.values(), _rule_in_sight)


def in_sight(rules: Any) -> RuleSet:
    """The same rules, but that what a GELU is written as is not hidden from others once it is found.

    They are for graphs in which it has no operator of its own, and for proofs, in which parts of it may have gone
    elsewhere.

    Args:
        rules: Rules and rule sets.
    """
    return _in_sight(rules) if isinstance(rules, RuleSet) else _in_sight(RuleSet("", rules))


@lru_cache(maxsize=32)
def _in_sight(rules: RuleSet) -> RuleSet:
    shipped = {id(rule): IN_SIGHT[rule.name] for rule in recognised if rule.name in IN_SIGHT}
    return RuleSet(rules.name, [shipped.get(id(rule), rule) for rule in rules])


__all__ = [
    "ComposeChains",
    "FoldConstants",
    "Injectivity",
    "PythonRule",
    "Rewrite",
    "RuleSet",
    "Soundness",
    "above_half",
    "above_least",
    "attending",
    "attrs_of",
    "base",
    "birewrite",
    "compute",
    "constants",
    "countable",
    "default",
    "distinct",
    "fast_math",
    "finite",
    "fold",
    "in_range",
    "in_sight",
    "index_of",
    "like",
    "lowering",
    "merge",
    "modest",
    "nans",
    "non_constant",
    "place_of",
    "real",
    "refuse",
    "rewrite",
    "rule",
    "sets",
    "single_use",
    "spelled",
    "successive",
    "type_of",
    "unhalved",
    "uses_of",
    "value_of",
    "variables",
    "when",
    "written",
]
