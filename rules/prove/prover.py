"""The prover: what is known of a rule for all values of its inputs, not only for some."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from itertools import islice
from typing import Any

from eqsat.egraph.rule import ComposeChains, FoldConstants, Injectivity, PythonRule, Rewrite, Rule, Soundness, flatten
from eqsat.errors import EqsatError, EvaluationError
from eqsat.relay.expr import Expr, Tuple
from eqsat.relay.interpreter import evaluate
from eqsat.rules.prove.bits import Tried, try_bits
from eqsat.rules.prove.cases import unequal
from eqsat.rules.prove.drawing import SmallDraw
from eqsat.rules.prove.evaluate import elements, evaluate_terms, inputs_of, shapes
from eqsat.rules.prove.general import by_element, prove_generally
from eqsat.rules.prove.proof import Proof, Status
from eqsat.rules.prove.store import Store
from eqsat.rules.prove.terms import NoTermError, Terms
from eqsat.rules.verify import verify
from eqsat.rules.verify.apply import right_sides
from eqsat.rules.verify.instances import Instance, arrays_of, draw_instances

INSTANCES = 12
"""Instances of each rule that are proved for all values."""
ATTEMPTS = 400
SAMPLES = 40
"""Instances that a rule is tested on, besides."""
LARGEST = 150
"""Elements of an input; larger instances are left out."""


def prove(
    rules: Any, instances: int = INSTANCES, seed: int = 0, store: Store | None = None, samples: int = SAMPLES
) -> list[Proof]:
    """Prove rules for all values of their inputs at shapes drawn, as far as that is possible; test all of them.

    Args:
        rules: a rule, or any iterable of rules, rule sets and ``DFPatternCallback`` objects.
        instances: how many instances to prove of each rule.
        seed: of the random choices; the instances of a rule depend on it and on the rule's name only.
        store: where proofs are kept; one that is there is not made again.
        samples: on how many random instances to test each rule, as :func:`eqsat.rules.verify.verify` does: a proof that
            is wrong would show as a rule that is refuted.

    Returns:
        For each rule what is known of it.

    Raises:
        RuleError: ``rules`` holds something that is no rule.
    """
    return [_known(rule, store, instances, seed, samples) for rule in flatten(rules)]


def _known(rule: Rule, store: Store | None, *how: int) -> Proof:
    """The proof that is kept of a rule, or a new one."""
    kept = None if store is None else store.find(rule, *how)
    if kept is not None:
        return kept
    start = time.perf_counter()
    proof = _proof(rule, *how)
    proof = replace(proof, seconds=time.perf_counter() - start)
    if store is not None:
        store.keep(proof, rule, *how)
    return proof


def _proof(rule: Rule, wanted: int, seed: int, samples: int) -> Proof:
    (verdict,) = verify(rule, samples, seed)
    failed = {"unsound": Status.REFUTED, "unmatched": Status.UNKNOWN, "failed": Status.UNKNOWN}.get(verdict.status)
    if failed is not None:
        return Proof(rule.name, rule.soundness, failed, detail=verdict.detail)
    tried = Tried()
    if isinstance(rule, (Rewrite, PythonRule)) and rule.soundness is Soundness.EXACT:
        tried = try_bits(rule, seed)
        if tried.counterexample:
            return Proof(rule.name, rule.soundness, Status.REFUTED, detail=tried.counterexample)
    claim = Proof(rule.name, rule.soundness, Status.TESTED, bits=tried.every, floats=tried.floats)
    found = _Found()
    if isinstance(rule, (ComposeChains, FoldConstants, Injectivity)):
        found.reason = "the rule is no equation of two sides"
    elif isinstance(rule, (Rewrite, PythonRule)):
        _prove_instances(rule, wanted, seed, found)
    if found.reason or not found.proved:
        why = found.reason or "no instance is small enough"
        return replace(claim, instances=verdict.instances, detail=why)
    assert isinstance(rule, (Rewrite, PythonRule))
    assumed = by_element(rule)
    general, why = _generally(rule, max(wanted // 2, 1), seed, found)
    status = Status.SIZES if general else Status.VALUES
    if assumed is not None and (general or not assumed):
        status, why = Status.RANKS, ""
        found.assumes |= assumed
    return replace(
        claim,
        status=status,
        exact=found.exact,
        instances=found.proved,
        general=general,
        assumes=tuple(sorted(found.assumes)),
        detail=why,
    )


def _generally(rule: Rewrite | PythonRule, wanted: int, seed: int, found: _Found) -> tuple[int, str]:
    """Of how many instances the rule is proved for all sizes; if of none, why."""
    try:
        general, assumed, why = prove_generally(rule, wanted, seed)
    except EqsatError as error:
        return 0, f"not for all sizes: {error}"
    if general:
        found.assumes |= assumed
    return general, f"not for all sizes: {why}" if why else ""


class _Found:
    """What was found of the instances of a rule."""

    def __init__(self) -> None:
        self.proved = 0
        self.exact = True
        self.assumes: set[str] = set()
        self.reason = ""


def _prove_instances(rule: Rewrite | PythonRule, wanted: int, seed: int, found: _Found) -> None:
    rng = random.Random(f"prove {seed} {rule.name}")
    stream = draw_instances(rule, lambda: SmallDraw(rng), wanted * ATTEMPTS)
    for _ in range(8):
        batch = list(islice(stream, wanted))
        small = [instance for instance in batch if _is_small(instance)]
        if not batch:
            return
        try:
            sides = right_sides(rule, small)
        except EqsatError as error:
            found.reason = str(error)
            return
        for instance, others in zip(small, sides, strict=True):
            if not _has_value(instance):
                continue
            for other in others:
                _prove_instance(instance, other, found)
                if found.reason:
                    return
            found.proved += bool(others)
            if found.proved >= wanted:
                return


def _has_value(instance: Instance) -> bool:
    """Whether the left side can be computed: not every operator takes every dtype."""
    try:
        evaluate(Tuple(instance.roots), instance.values, instance.module)
    except EvaluationError:
        return False
    return True


def _is_small(instance: Instance) -> bool:
    return all(array.size <= LARGEST for value in instance.values.values() for array in arrays_of(value))


def _prove_instance(instance: Instance, other: tuple[Expr, ...], found: _Found) -> None:
    """Note that both sides are equal for all values of the instance's inputs, or why that is not shown."""
    if instance.module is not None:
        found.reason = "functions called by name have no terms"
        return
    has_integers = any(array.dtype.kind in "iu" for value in instance.values.values() for array in arrays_of(value))
    for integers in (True, False) if has_integers else (True,):
        terms = Terms()
        inputs = inputs_of(terms, instance.values, integers)
        found.reason = ""
        try:
            left = evaluate_terms(terms, instance.roots, inputs)
            right = evaluate_terms(terms, other, inputs)
        except NoTermError as error:
            found.reason = str(error)
            continue
        except EqsatError as error:
            found.reason = f"a side cannot be computed: {error}"
            continue
        if shapes(tuple(left)) != shapes(tuple(right)):
            found.reason = "the sides differ in type"
            continue
        pairs = list(zip(elements(terms, tuple(left)), elements(terms, tuple(right)), strict=True))
        differing = unequal(pairs)
        if differing is not None:
            found.reason = f"not shown to be equal: {_brief(differing[0])} and {_brief(differing[1])}"
            continue
        same = all(one is two for one, two in pairs)
        found.exact &= same and not terms.assumed
        found.assumes |= terms.assumed
        if not integers:
            found.assumes.add("integers are those drawn")
        return


def _brief(term: Any) -> str:
    """The beginning of a term, which may be very large as a tree."""

    def told(each: Any, depth: int) -> str:
        if not each.args:
            return str(each.data)
        return "..." if not depth else f"{each.head}({', '.join(told(arg, depth - 1) for arg in each.args)})"

    return told(term, 3)
