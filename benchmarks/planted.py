"""Whether ``eqsat.onnx.bisect`` finds the bad rule, for bad rules of several kinds that are planted among good ones.

    python benchmarks/planted.py [--count N] [--seed N]

A model computes random instances of the left sides of several rules. A bad rule is made of one of these, and takes its
place among all rules:

* *forgets*: its right side is something that its left side takes;
* *unguarded*: it has no conditions any more;
* *exchanged*: the operands on its right side have changed places;
* *other operator*: another operator of as many operands is on its right side;
* *other value*: the constants that it computes are half as large again, or a number instead of 0;
* *operand*: the outermost operator of its right side is left out.

It counts if the model that is optimized with it gives something else than the given one on random inputs, which is the
check. Then bisect is asked, and is to name the bad rule.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count as numbers
from typing import Any

import click
import numpy as np
import onnx_ir as ir
import onnxruntime

import eqsat.onnx
from eqsat.calibration.kernels import model_of
from eqsat.egraph.rule import Compute, Rewrite
from eqsat.errors import EqsatError
from eqsat.onnx.feeds import runnable_feed
from eqsat.relay.dataflow_pattern import AttrPattern, CallPattern, DFPattern, WildcardPattern, is_op
from eqsat.relay.dataflow_pattern.language import subpatterns
from eqsat.relay.expr import Expr, Tuple, Var
from eqsat.relay.op.draw import Draw
from eqsat.relay.visitor import post_order
from eqsat.rules import default
from eqsat.rules.verify.instances import draw_instances

LEFT_SIDES = 6
"""Rules whose left sides a model computes."""

TOLERANCE = 1e-2
"""Difference of outputs that is allowed, relative to the largest value."""
OTHERS = (
    ("add", "subtract"),
    ("multiply", "divide"),
    ("maximum", "minimum"),
    ("nn.relu", "tanh"),
    ("sqrt", "exp"),
    ("rsqrt", "exp"),
    ("sigmoid", "tanh"),
    ("nn.gelu", "nn.relu"),
    ("nn.silu", "nn.relu"),
    ("erf", "tanh"),
    ("max", "mean"),
    ("sum", "max"),
)
"""Operators that are taken for one another."""

_OTHER = {**dict(OTHERS), **{other: one for one, other in reversed(OTHERS)}}


@dataclass(frozen=True)
class Planted:
    """A bad rule.

    Attributes:
        kind: What is wrong with it.
        rule: It.
        origin: The rule whose place it takes.
    """

    kind: str
    rule: Rewrite
    origin: Rewrite


def bad_rules(rule: Rewrite) -> Iterator[Planted]:
    """The bad rules that are made of a rule, each under a name that tells of what and how."""
    for kind, mutate in KINDS.items():
        for number, changed in enumerate(mutate(rule)):
            name = f"{rule.name} {kind} {number}"
            yield Planted(kind, replace(changed, name=name, soundness=rule.soundness, contracts=False), rule)


def _forgetting(rule: Rewrite) -> Iterator[Rewrite]:
    if len(rule.lhs) == 1:
        taken = [each for each in subpatterns(rule.lhs[0]) if isinstance(each, WildcardPattern)]
        for leaf in dict.fromkeys(taken):
            if leaf is not rule.rhs[0]:
                yield replace(rule, rhs=(leaf,))


def _unguarded(rule: Rewrite) -> Iterator[Rewrite]:
    if rule.when or rule.distinct or rule.numbers:
        yield replace(rule, when=(), distinct=(), numbers=())


def _exchanged(rule: Rewrite) -> Iterator[Rewrite]:
    yield from _with_other_call(rule, lambda op, args: is_op(op)(*args[::-1]) if len(args) == 2 else None)


def _other_operator(rule: Rewrite) -> Iterator[Rewrite]:
    yield from _with_other_call(rule, lambda op, args: is_op(_OTHER[op])(*args) if op in _OTHER else None)


def _operand(rule: Rewrite) -> Iterator[Rewrite]:
    yield from _with_other_call(rule, lambda op, args: args[0] if args else None)


def _with_other_call(rule: Rewrite, change: Callable[[str, Sequence[DFPattern]], Any]) -> Iterator[Rewrite]:
    """The rule with another right side in the place of a call without attributes."""
    for index, template in enumerate(rule.rhs):
        bare = template.pattern if isinstance(template, AttrPattern) else template
        matched = {part for root in rule.lhs for part in subpatterns(root)}
        if isinstance(bare, CallPattern) and template not in matched and bare.named is not None:
            changed = change(bare.named.name, bare.args or ())
            if changed is not None:
                yield replace(rule, rhs=(*rule.rhs[:index], changed, *rule.rhs[index + 1 :]))


def _other_value(rule: Rewrite) -> Iterator[Rewrite]:
    for index, template in enumerate(rule.rhs):
        bare = template.pattern if isinstance(template, AttrPattern) else template
        if not isinstance(bare, CallPattern) or bare.named is None:
            continue
        for place, arg in enumerate(bare.args or ()):
            if isinstance(arg, Compute):
                args = [*bare.args[:place], Compute(_wrong(arg.function), arg.refs), *bare.args[place + 1 :]]
                changed = CallPattern(bare.op, args)
                whole = changed if bare is template else AttrPattern(changed, template.attrs)
                yield replace(rule, rhs=(*rule.rhs[:index], whole, *rule.rhs[index + 1 :]))


def _wrong(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(*args: Any) -> Any:
        found = function(*args)
        if not isinstance(found, (np.ndarray, np.generic, float)) or np.asarray(found).dtype.kind != "f":
            return found
        array = np.asarray(found)
        return np.where(array == 0, array.dtype.type(0.5), array * array.dtype.type(1.5)).astype(array.dtype)

    return wrong


KINDS: dict[str, Callable[[Rewrite], Iterator[Rewrite]]] = {
    "forgets": _forgetting,
    "unguarded": _unguarded,
    "exchanged": _exchanged,
    "other operator": _other_operator,
    "other value": _other_value,
    "operand": _operand,
}
"""Kind of bad rules -> what makes them of a good one."""


class Check:
    """Whether a model gives what the given one does on an input, as a check of a user's own may do it.

    Raises:
        Exception: The runtime cannot run the given model.
    """

    def __init__(self, model: ir.Model):
        self.feed = runnable_feed(model)
        self.expected = self._outputs(model)

    def __call__(self, model: ir.Model) -> bool:
        try:
            pairs = list(zip(self._outputs(model), self.expected, strict=True))
        except Exception:  # of the runtime's own: it does not run
            return False
        return all(np.allclose(one, other, 0, TOLERANCE * np.abs(other).max(initial=0)) for one, other in pairs)

    def _outputs(self, model: ir.Model) -> Sequence[Any]:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(eqsat.onnx.to_bytes(model), options, ["CPUExecutionProvider"])
        found: Sequence[Any] = session.run(None, self.feed)
        return found


@dataclass(frozen=True)
class Trial:
    """A bad rule that makes a model wrong, and what bisect says.

    Attributes:
        model: The number of the model.
        planted: The bad rule.
        named: The rules that bisect names.
    """

    model: int
    planted: Planted
    named: list[str] | None

    @property
    def is_found(self) -> bool:
        """Whether the bad rule is named."""
        return self.named is not None and self.planted.rule.name in self.named


def trials(count: int, seed: int) -> Iterator[Trial]:
    """Bad rules that make models wrong, of all kinds in turn."""
    kinds = Counter[str]()
    for number in numbers():
        random_of_model = random.Random(f"{seed} {number}")
        rules, model = made_model(random_of_model)
        try:
            passes = Check(model)
        except Exception:  # of the runtime's own: the parts ran by themselves, but on other inputs
            continue
        if not all(passes(eqsat.onnx.run(model, good).after) for good in (default, [])):
            continue  # rounding shows
        planted = [bad for rule in rules for bad in bad_rules(rule)]
        random_of_model.shuffle(planted)
        for bad in sorted(planted, key=lambda each: kinds[each.kind])[:LEFT_SIDES]:
            acting = [*default.without(bad.origin.name), bad.rule]
            try:
                if passes(eqsat.onnx.run(model, acting).after):
                    continue
            except EqsatError:
                continue  # it makes nodes of wrong types, which the run refuses
            kinds[bad.kind] += 1
            yield Trial(number, bad, eqsat.onnx.bisect(model, passes, acting))
            if kinds.total() == count:
                return


def made_model(random_of_model: random.Random) -> tuple[list[Rewrite], ir.Model]:
    """A model that computes left sides of some rules, and these rules."""
    every = [rule for rule in default if isinstance(rule, Rewrite) and len(rule.lhs) == 1]
    rules, roots = list[Rewrite](), list[Expr]()
    for rule in random_of_model.sample(every, len(every)):
        for instance in draw_instances(rule, lambda: Draw(random_of_model), 4):
            (root,) = instance.roots
            if instance.module is None and _runs(root):
                rules.append(rule)
                roots.append(root)
                break
        if len(rules) == LEFT_SIDES:
            break
    return rules, ir.from_proto(model_of(Tuple(roots)))


def _runs(root: Expr) -> bool:
    """Whether a graph can be written as a model that the runtime runs, and takes an input."""
    if not any(isinstance(node, Var) for node in post_order(root)) or isinstance(root, Var):
        return False
    try:
        expected = Check(ir.from_proto(model_of(root))).expected
    except Exception:  # the runtime has exceptions of its own
        return False
    return all(np.isfinite(each).all() for each in expected)


@click.command(help=__doc__)
@click.option("--count", type=click.IntRange(min=1), default=50, show_default=True, help="Bad rules that count.")
@click.option("--seed", type=int, default=0, show_default=True)
def main(count: int, seed: int) -> None:
    """Count the bad rules that are found."""
    found: list[Trial] = []
    for trial in trials(count, seed):
        found.append(trial)
        told = "found" if trial.is_found else "MISSED"
        click.echo(f"model {trial.model}: {trial.planted.rule.name}: {told}: {trial.named}")
    kinds = Counter(trial.planted.kind for trial in found)
    alone = sum(trial.named == [trial.planted.rule.name] for trial in found)
    good = sum(trial.is_found for trial in found)
    models = len({trial.model for trial in found})
    click.echo(
        f"\n{good} of {count} bad rules found in {models} models, {alone} alone and {good - alone} with rules that they"
        f" need; {', '.join([f'{number} {kind}' for kind, number in kinds.most_common()])}"
    )
    sys.exit(good < count)


if __name__ == "__main__":
    main()
