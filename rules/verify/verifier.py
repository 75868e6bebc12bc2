"""The rule verifier: both sides of a rule must agree on many random instances.

Instances of the left side that satisfy the guards are drawn, the engine applies the rule to them, and the interpreter
computes the original and the result. The soundness of the rule determines by how much the two may differ:

* ``exact``: every bit must agree (any two NaNs are equal);
* ``rounding``: floats may differ by a few rounding errors, relative to the largest intermediate value of either side;
  integers must be equal;
* ``finite``: the same as ``rounding``, if all values that the left side computes are finite.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from eqsat.egraph.rule import Array, ComposeChains, FoldConstants, Injectivity, Rewrite, Rule, Soundness, flatten
from eqsat.errors import EqsatError, EvaluationError, TypeCheckError
from eqsat.relay.expr import Call, Constant, Expr, Function, GlobalVar, Op, Tuple
from eqsat.relay.infer import infer_type, infer_types
from eqsat.relay.interpreter import evaluate
from eqsat.relay.op.draw import Draw
from eqsat.relay.op.op import REQUIRED, make_attrs, operators
from eqsat.relay.ty import TensorType
from eqsat.relay.visitor import post_order
from eqsat.rules.verify.apply import right_sides
from eqsat.rules.verify.chained import chains
from eqsat.rules.verify.counterexample import program, whole
from eqsat.rules.verify.injective import comparisons
from eqsat.rules.verify.instances import Instance, Value, arrays_of, draw_instances, draw_values

BATCH = 50
"""Number of instances in one e-graph."""
ATTEMPTS = 400
"""Number of draws for each wanted instance before the search is given up."""
ROUNDINGS = 64
"""Units in the last place by which the sides of ``rounding`` rules may differ."""
EXAMPLES = 10
"""Number of instances of which the smallest is the example."""


@dataclass(frozen=True)
class Verdict:
    """The result of testing a rule.

    Args:
        rule: The name of the rule.
        soundness: The soundness that it declares.
        status: ``sound`` (on all instances), ``unsound``, ``unmatched`` (no instance was found to which the rule
            applies) or ``failed`` (the rule raised an error).
        instances: The number of instances on which both sides were compared.
        detail: The smallest counterexample as a Python program that prints what both sides give, or the error.
        seconds: The time of the test, in seconds.
    """

    rule: str
    soundness: Soundness
    status: str
    instances: int
    detail: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.status == "sound"


def verify(rules: Any, instances: int = 100, seed: int = 0) -> list[Verdict]:
    """Test rules on random instances.

    Args:
        rules: A rule, or any iterable of rules, rule sets and ``DFPatternCallback`` objects.
        instances: The number of instances to compare for each rule.
        seed: The seed of the random choices. The instances of a rule depend only on it and on the name of the rule.

    Returns:
        A verdict for each rule.

    Raises:
        RuleError: ``rules`` contains something that is not a rule.
    """
    return [_verify(rule, instances, seed) for rule in flatten(rules)]


def verify_equal(
    before: Expr, after: Expr, soundness: Soundness = Soundness.ROUNDING, instances: int = 10, seed: int = 0
) -> Verdict:
    """Test that two graphs compute the same values, such as the two sides of a step of an explanation.

    Args:
        before, after: The graphs; their free variables have types.
        soundness: How much the values may differ.
        instances: The number of random inputs on which to compare them.
        seed: The seed of the inputs.
    """
    start, tested, rng = time.perf_counter(), 0, random.Random(seed)
    both = Tuple([infer_type(before), after])
    types = infer_types(both)
    for _ in range(instances):
        values = draw_values(Draw(rng, finite=soundness is Soundness.FINITE), both, types)
        instance = Instance((both.fields[0],), values)
        outcome = _compare(soundness, instance, (after,))
        tested += outcome is not None
        if isinstance(outcome, _Difference):
            return Verdict("", soundness, "unsound", tested, outcome.text(), time.perf_counter() - start)
    return Verdict("", soundness, "sound" if tested else "unmatched", tested, "", time.perf_counter() - start)


def example(rule: Rule, seed: int = 0) -> tuple[Expr, Expr] | None:
    """Return a small graph that a rule matches, and the graph that the rule equates it with.

    Args:
        rule: The rule.
        seed: The seed of the random choices, as for :func:`verify`.

    Returns:
        Both sides, over the same variables; tuples of graphs if the rule has several roots. None if no instance was
        found.

    Raises:
        RuleError: The rule fails.
    """
    for batch in _batches(rule, EXAMPLES, seed):
        found = [(instance, others[0]) for instance, others in batch if others]
        if found:
            instance, other = min(found, key=lambda each: each[0].size)
            return whole(instance.roots), whole(other)
    return None


def table(verdicts: Iterable[Verdict]) -> str:
    """Return verdicts as text: a line for each rule, with counterexamples, which are programs, below."""
    lines = []
    for verdict in verdicts:
        count = f"{verdict.instances} instances"
        lines.append(
            f"{verdict.status:<10} {verdict.rule:<40} {verdict.soundness.value:<9} {count:<14} {verdict.seconds:6.2f} s"
        )
        lines += indented(verdict.detail)
    return "\n".join(lines)


def indented(detail: str) -> list[str]:
    """Return the lines of a reason, indented, or those of a program as they are."""
    return [line if detail.startswith("# ") else f"    {line}" for line in detail.splitlines()]


def _verify(rule: Rule, wanted: int, seed: int) -> Verdict:
    start = time.perf_counter()
    tested = 0
    found: list[_Difference] = []

    def verdict(status: str, detail: str = "") -> Verdict:
        return Verdict(rule.name, rule.soundness, status, tested, detail, time.perf_counter() - start)

    try:
        for batch in _batches(rule, wanted, seed):
            for instance, others in batch:
                compared = [_compare(rule.soundness, instance, other) for other in others]
                tested += any(outcome is not None for outcome in compared)
                found += [outcome for outcome in compared if isinstance(outcome, _Difference)]
            if found or tested >= wanted:
                break
    except EqsatError as error:
        return verdict("failed", str(error))
    if found:
        return verdict("unsound", min(found, key=lambda difference: difference.instance.size).text())
    if not tested:
        return verdict("unmatched", "no instance of the left side was found to which the rule applies")
    return verdict("sound")


def _batches(rule: Rule, wanted: int, seed: int) -> Iterator[list[tuple[Instance, list[tuple[Expr, ...]]]]]:
    """Instances, each with what the rule says that it equals."""
    rng = random.Random(f"{seed} {rule.name}")
    finite = rule.soundness is Soundness.FINITE or (isinstance(rule, Rewrite) and bool(rule.numbers))
    if isinstance(rule, Injectivity):
        pairs = comparisons(lambda: Draw(rng), wanted * ATTEMPTS)
        yield [(instance, [(other,)]) for instance, other in islice(pairs, wanted)]
        return
    stream: Iterator[Instance]
    if isinstance(rule, ComposeChains):
        stream = chains(rng, wanted * ATTEMPTS)
    elif isinstance(rule, FoldConstants):
        stream = _constant_calls(rng, wanted)
    else:
        stream = draw_instances(rule, lambda: Draw(rng, finite), wanted * ATTEMPTS)
    while batch := list(islice(stream, min(BATCH, 2 * wanted))):  # about half of them satisfy everything
        yield list(zip(batch, right_sides(rule, batch), strict=True))


def _constant_calls(rng: random.Random, wanted: int) -> Iterator[Instance]:
    """Calls of all kinds of operators on constants."""
    computed = [op for op in operators(arguments=1) if op.kernel is not None]
    plain = [op for op in computed if all(field.default is not REQUIRED for field in op.fields)]
    for _ in range(wanted * 4):
        draw = Draw(rng)
        op = rng.choice(plain)
        call = Call(op, [Constant(draw.array(draw.tensor(max(draw.rank, 1))))], make_attrs(op, {}))
        try:
            infer_types(call)
        except TypeCheckError:
            continue
        yield Instance((call,), {})


@dataclass(frozen=True)
class _Difference:
    """An instance whose two sides differ."""

    instance: Instance
    other: tuple[Expr, ...]
    reason: str

    def text(self) -> str:
        """Return a program that shows it."""
        return program(self.reason, self.instance.roots, self.other, self.instance.values, self.instance.module)


def _compare(soundness: Soundness, instance: Instance, other: tuple[Expr, ...]) -> _Difference | bool | None:
    """A difference, True where there is none, None where the sides cannot be compared."""
    try:
        left, seen = _values(instance.roots, instance)
    except EvaluationError:
        return None  # the left side has no value: there is nothing to keep
    if not _keeps_types(instance, left):
        return None  # nor when an operator is used on a dtype that is not its own
    if soundness is Soundness.FINITE and not all(np.all(np.isfinite(array)) for array in seen):
        return None
    try:
        right, more = _values(other, instance)
    except EvaluationError as error:
        return _Difference(instance, other, f"the right side cannot be computed: {error}")
    scale = max((_magnitude(array) for array in (*seen, *more)), default=0.0)
    for one, two in zip(arrays_of(left), arrays_of(right), strict=False):
        reason = _unequal(soundness, one, two, scale)
        if reason:
            return _Difference(instance, other, reason)
    if len(arrays_of(left)) != len(arrays_of(right)):
        return _Difference(instance, other, "the sides differ in their number of results")
    return True


def difference(instance: Instance, other: tuple[Expr, ...]) -> str:
    """How another side differs from an instance's in some bit, nothing if it does not."""
    found = _compare(Soundness.EXACT, instance, other)
    if found is None:
        raise EvaluationError("the sides cannot be compared")
    return found.text() if isinstance(found, _Difference) else ""


def _keeps_types(instance: Instance, values: tuple[Value, ...]) -> bool:
    """Whether the values of the roots are of the dtypes that their types say."""
    types = [root._checked_type for root in instance.roots]
    pairs = zip(types, values, strict=True)
    return all(not isinstance(ty, TensorType) or np.asarray(value).dtype.name == ty.dtype for ty, value in pairs)


def _values(roots: tuple[Expr, ...], instance: Instance) -> tuple[tuple[Value, ...], list[Array]]:
    """The values of ``roots``, and all floating-point arrays computed on the way."""
    region = post_order(Tuple(roots), children=lambda node: () if isinstance(node, Function) else node.children())
    nodes = [node for node in region if not isinstance(node, (Op, Function, GlobalVar))]
    every = evaluate(Tuple([*roots, *nodes]), instance.values, instance.module)
    return every[: len(roots)], [array for array in arrays_of(every) if array.dtype.kind not in "biu"]


def _magnitude(array: Array) -> float:
    finite = np.abs(array[np.isfinite(array)].astype(np.float64))
    return float(finite.max(initial=0.0))


def _unequal(soundness: Soundness, left: Array, right: Array, scale: float) -> str:
    """Why two arrays are not equal enough, or nothing."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return f"the sides differ in type: {left.dtype}{list(left.shape)} and {right.dtype}{list(right.shape)}"
    if left.dtype.kind in "biu":
        wrong = left != right
    elif soundness is Soundness.EXACT:
        wrong = ~(((left == right) & (np.signbit(left) == np.signbit(right))) | (np.isnan(left) & np.isnan(right)))
    else:
        allowed = ROUNDINGS * float(np.finfo(left.dtype).eps) * scale
        with np.errstate(all="ignore"):
            near = np.abs(left.astype(np.float64) - right.astype(np.float64)) <= allowed
        wrong = ~(near | (left == right) | (np.isnan(left) & np.isnan(right)))
    if not np.any(wrong):
        return ""
    place = tuple(map(int, np.argwhere(wrong)[0]))
    return f"the sides differ at {list(place)}: {left[place]!r} and {right[place]!r}"
