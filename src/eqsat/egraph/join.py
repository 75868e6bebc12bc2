"""Roots that are matched together are first matched each by itself.

The engine searches a rule once for each of its premises, for the matches in which that premise is new. Of three roots
with ten premises each that is thirty times a join of thirty tables; so each root has a relation of its own, and what is
joined are three of these. Rules by which constants meet share relations of sums and products with constants.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from eqsat.egraph.egraph import EGraph
from eqsat.egraph.query import MatchedNode, Query

WIDE = 48
"""Premises of a rule over many fields above which there are blocks of them."""

_BLOCK = 12
"""Premises of a block."""

_WORD = re.compile(r"(\(?)([^\s()]+)")
_LOOKUP = re.compile(r"\(= (\w+) \(\w+ (\w+)\)\)")
_FROM_BASE = re.compile(r"\(<= level_(\w+) origin_(\w+)\)")
_VALUE = re.compile(r"\(= val_\w+ \(val (\w+)\)\)")


def by_root(egraph: EGraph, query: Query, roots: Sequence[str], premises: Sequence[str], used: str) -> list[str]:
    """Premises that say the same, with a relation for each root in place of those about what is below it alone.

    Args:
        egraph: What the relations are declared in. Its rules for facts fill them.
        query: How the rule matches.
        roots: The variables of the roots.
        premises: All premises of the rule.
        used: The text of what is done with a match.
    """
    below = [_below(query, root) for root in roots]
    classes = set(query.class_variables)
    about = {premise: classes.intersection(_variables(premise)) for premise in premises}
    linked = {each for names in about.values() if not any(names <= own for own in below) for each in names}
    parts: list[list[str]] = [[] for _ in roots]
    rest: list[str] = []
    for premise, names in about.items():
        owner = next((part for part, own in zip(parts, below, strict=True) if names and names <= own), rest)
        (rest if names <= linked else owner).append(premise)
    outside = set(_variables(" ".join([*rest, used])))
    return [*[_relation(egraph, part, classes, outside) for part in parts if part], *rest]


def by_operand(egraph: EGraph, query: Query, root: str, premises: Sequence[str], used: str) -> list[str]:
    """Premises of a rule by which constants meet, with relations in place of those on sums and products with constants.

    Such rules run once for each link of a chain, so that it matters how much there is to join. A relation holds what is
    below an operand of the root, or the root itself with an operand that is a constant; several rules share it.

    Args:
        egraph: What the relations are declared in. They are filled when the bases are known.
        query: How the rule matches.
        root: The variable of the root.
        premises: All premises of the rule.
        used: The text of what is done with a match.
    """
    heads, classes = query.heads, set(query.class_variables)
    below = {child: _below(query, child) for child in heads[root].children if child in heads}
    if any(known in premises for child in heads[root].children for known in (f"(isc {child})", _value_of(child))):
        below[root] = {root, *heads[root].children}
    looked_up = {match[1]: match[2] for match in map(_LOOKUP.fullmatch, premises) if match and match[1] not in classes}
    asked = {name for name in looked_up if not name.startswith(("level_", "origin_"))}  # by some rules, not by others
    owner = looked_up | {node.atom: each for each, node in heads.items()} | {name: name for name in classes}
    parts: dict[str, list[str]] = {top: [] for top in below}
    rest: list[str] = []
    for premise in premises:
        names, value = _variables(premise), _VALUE.fullmatch(premise)
        about = {owner[name] for name in names if name in owner}
        top = next((top for top, own in below.items() if about and about <= own), None)
        is_shared = top is not None and not premise.startswith("(!= ") and asked.isdisjoint(names)
        if top is not None and (is_shared or value):
            parts[top].append(f"(isc {value[1]})" if value else premise)
        if not is_shared:
            rest.append(premise)
    compared = {name for premise in rest for name in _variables(premise) if premise.startswith("(<= ")}
    rest += [f"(= {name} (level {looked_up[name]}))" for name in sorted(compared)]
    outside = classes | set(query.atom_variables).intersection(_variables(f"{' '.join(rest)} {used}"))
    varying = {f"(varies {base})" for base in looked_up.values() if f"(= level_{base} (level {base}))" in premises}
    found = []
    for top, part in parts.items():
        part = _in_order([premise for premise in part if premise not in varying], query)
        for variable in [each for each in heads if each in below[top]]:
            scaled = _with_constant(part, heads[variable])
            if len(scaled) > 1:
                relation = _relation(egraph, scaled, classes, outside, "settled", [f"(= v (val {variable}))"])
                part = [relation, *[premise for premise in part if premise not in scaled]]
        if len([premise for premise in part if not premise.startswith("(<= ")]) > 1:
            lower = [f"(= l (level {base})) (= o (origin {form})) (< o l)" for base, form in _from_bases(part)]
            part = [_relation(egraph, part, classes, outside, "settled", [*lower, f"(= v (val {top}))"])]
        found += part
    return [*found, *rest]


def in_blocks(egraph: EGraph, query: Query, premises: Sequence[str], used: str) -> list[str]:
    """Premises of a rule over many fields, with a relation for each block of them.

    To plan and to search a join takes the engine the cube of the number of premises. The fields of a wide e-node have
    premises of their own, which share few variables with those of others.

    Args:
        egraph: What the relations are declared in. Its rules for facts fill them.
        query: How the rule matches.
        premises: All premises of the rule.
        used: The text of what is done with a match.
    """
    wide = max(premises, key=lambda premise: len(_variables(premise)))
    rest = [premise for premise in premises if premise != wide]
    about = {premise: set(_variables(premise)) for premise in rest}
    counts = Counter(name for names in about.values() for name in names)
    common = {name for name, count in counts.items() if count > _BLOCK}
    apart: dict[str, list[str]] = {}  # by a variable of a field
    of: dict[str, str] = {}
    for premise, names in about.items():
        own = sorted(names - common)
        known = [of[name] for name in own if name in of]
        first = known[0] if known else own[0] if own else ""
        for other in dict.fromkeys(known[1:]):
            if other != first:
                apart.setdefault(first, []).extend(apart.pop(other, []))
                of.update((name, first) for name, now in list(of.items()) if now == other)
        apart.setdefault(first, []).append(premise)
        of.update((name, first) for name in own)
    left = apart.pop("", [])
    classes, found = set(query.class_variables), [wide, *left]
    waiting = list(apart.values())
    while waiting:
        block: list[str] = []
        while waiting and len(block) < _BLOCK:
            block += waiting.pop(0)
        names = set(_variables(" ".join(block)))
        others = " ".join([wide, *left, *[premise for part in waiting for premise in part], *found, used])
        outside = (names & set(_variables(others))) | {_variables(wide)[0]}
        found.append(_relation(egraph, [wide, *block], classes, outside))
    return found


def _value_of(variable: str) -> str:
    return f"(= val_{variable} (val {variable}))"


def _with_constant(premises: Sequence[str], node: MatchedNode) -> list[str]:
    """Those premises that say that there is an e-node, and which of its children are constants."""
    constant = {f"(isc {child})" for child in node.children}
    return [premise for premise in premises if premise in constant or node.atom in _variables(premise)]


def _in_order(premises: Sequence[str], query: Query) -> list[str]:
    """Premises in an order that does not depend on their variables' names: e-nodes, then what is known of classes."""
    atoms = set(query.atom_variables)
    nodes = [premise for premise in premises if not atoms.isdisjoint(_variables(premise))]
    place = {name: index for index, name in enumerate(_variables(" ".join(nodes)))}

    def key(premise: str) -> tuple[list[str], list[int]]:
        names = _variables(premise)
        return [head for _, head in _WORD.findall(premise) if head not in names], [place.get(name, 0) for name in names]

    return [*nodes, *sorted(dict.fromkeys([each for each in premises if each not in nodes]), key=key)]


def _from_bases(premises: Sequence[str]) -> list[tuple[str, str]]:
    """The base, and the class that comes from it, of each comparison of a level with an origin."""
    return [(match[1], match[2]) for match in map(_FROM_BASE.fullmatch, premises) if match]


def _variables(text: str) -> list[str]:
    """The variables in premises or actions, each as often as it is there."""
    return [word for head, word in _WORD.findall(text) if not head and not word.lstrip("-").isdigit()]


def _below(query: Query, root: str) -> set[str]:
    """The variables of the classes of what was matched at a root and below it."""
    heads, found = query.heads, [root]
    for variable in found:  # grows while it is read
        if variable in heads:
            found += heads[variable].children
    return set(found)


def _relation(
    egraph: EGraph,
    premises: Sequence[str],
    classes: set[str],
    outside: set[str],
    ruleset: str = "facts",
    unless: Sequence[str] = (),
) -> str:
    """The premise that a relation holds, of the variables in use outside, where the premises do."""
    text = " ".join(premises)
    number = {name: f"v{index}" for index, name in enumerate(dict.fromkeys(_variables(text)))}
    columns = [name for name in number if name in outside]
    kinds = ["Expr" if name in classes else "i64" for name in columns]

    def renamed(each: str) -> str:
        return _WORD.sub(lambda word: word[1] + number.get(word[2], word[2]), each)

    table = egraph.part(renamed(text), [number[name] for name in columns], kinds, ruleset, list(map(renamed, unless)))
    return f"({table} {' '.join(columns)})"
