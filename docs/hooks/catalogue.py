"""The catalogue of rules: a page for each subject, with the equation, example, picture and proof of each rule."""

from __future__ import annotations

import json
import re
from html import escape

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from eqsat import relay
from eqsat.egraph.rule import Rewrite, Rule, Soundness
from eqsat.relay.expr import Expr
from eqsat.rules import sets
from eqsat.rules.prove import PROVED_BEFORE
from eqsat.rules.verify import example

KEEPS = {
    Soundness.EXACT: "every bit",
    Soundness.ROUNDING: "values up to rounding",
    Soundness.FINITE: "values where none is infinite or NaN",
}
_WHOLE = ("default", "finite", "merge", "fast_math", "in_range", "lowering", "written", "spelled")
"""Sets that users choose; the others are subjects."""
_LARGEST = 8
"""Operators of a side beyond which there is no picture."""

_INDEX = """# Rules

eqsat ships {count} rules. Each rule is an equation. `eqsat rules verify` tests it on random values, and `eqsat rules
prove` proves it for all values if possible: see [Proofs of rules](../proofs.md). These pages are generated from the
rules. `--rules` accepts the names of subjects and sets, and so does the argument `rules`.

| subject | rules | in the default set | proved |
|---|---|---|---|
{rows}
"""

_TYPES = re.compile(r" /\*.*?\*/")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the list of subjects, and a page for each."""
    default = {rule.name for rule in sets["default"]}
    proved = json.loads(PROVED_BEFORE.read_text(encoding="utf-8"))
    subjects = _subjects()
    rows = []
    for name, rules in subjects.items():
        names = [rule.name for rule in rules]
        counts = [len(names), sum(each in default for each in names), sum(each in proved for each in names)]
        rows.append(f"| [{name}]({name}.md) | {' | '.join(map(str, counts))} |")
        entries = [_entry(rule, proved.get(rule.name)) for rule in rules]
        page = "\n".join([f"# Rules: {name}\n", *entries])
        files.append(File.generated(config, f"catalogue/{name}.md", content=page))
    index = _INDEX.format(count=sum(map(len, subjects.values())), rows="\n".join(rows))
    files.append(File.generated(config, "catalogue/index.md", content=index))
    return files


def _subjects() -> dict[str, list[Rule]]:
    """Each subject with its rules; what belongs to none stands under the first set that has it."""
    subjects = {name: list(rules) for name, rules in sets.items() if name not in _WHOLE}
    listed = {rule.name for rules in subjects.values() for rule in rules}
    for name in _WHOLE:
        left = [rule for rule in sets[name] if rule.name not in listed]
        listed |= {rule.name for rule in left}
        subjects |= {name: left} if left else {}
    return subjects


def _sets_of(rule: Rule) -> list[str]:
    return [name for name in _WHOLE if any(each.name == rule.name for each in sets[name])]


def _entry(rule: Rule, proof: str | None) -> str:
    """What the catalogue tells of a rule."""
    held_by = _sets_of(rule)
    facts = [f"Keeps {KEEPS[rule.soundness]}", f"proved for {proof}" if proof else "tested, not proved"]
    facts.append(f"in {', '.join(f'`{name}`' for name in held_by)}" if held_by else "in no set but its subject")
    parts = [f"## {rule.name}\n", f"{'; '.join(facts)}.\n"]
    if isinstance(rule, Rewrite):
        parts.append(f"```text\n{rule.equation}\n```\n")
    sides = example(rule)
    if sides is not None:
        shown = [_TYPES.sub("", str(side)).strip() for side in sides]
        parts.append(f"For instance\n\n```text\n{shown[0]}\n```\n\nequals\n\n```text\n{shown[1]}\n```\n")
        if all(_operators(side) <= _LARGEST for side in sides):
            pictures = [f'<div style="max-width: 45%">{relay.viz(side).svg}</div>' for side in sides]
            style = "display: flex; gap: 2em; align-items: center; overflow-x: auto"
            title = escape(f"Both sides of {rule.name}")
            parts.append(f'<div style="{style}" role="img" aria-label="{title}">{"=".join(pictures)}</div>\n')
    return "\n".join(parts)


def _operators(side: Expr) -> int:
    found: list[Expr] = []
    relay.analysis.post_order_visit(side, lambda node: found.append(node) if isinstance(node, relay.Call) else None)
    return len(found)
