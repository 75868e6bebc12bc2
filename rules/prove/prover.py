"""The prover: what is known of a rule for all values of its inputs, not only for some."""

from __future__ import annotations

import random
import time
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.rule import FoldConstants, Injectivity, PythonRule, Rewrite, Rule, flatten
from eqsat.errors import EqsatError
from eqsat.relay.expr import Expr
from eqsat.relay.op.draw import Draw
from eqsat.relay.ty import TensorType
from eqsat.rules.prove.cases import unequal
from eqsat.rules.prove.evaluate import elements, evaluate_terms, inputs_of, shapes
from eqsat.rules.prove.proof import Proof, Status
from eqsat.rules.prove.store import Store
from eqsat.rules.prove.terms import NoTermError, Terms
from eqsat.rules.verify import verify
from eqsat.rules.verify.apply import right_sides
from eqsat.rules.verify.instances import Instance, arrays_of, draw_instances

INSTANCES = 12
"""Instances of each rule that are proved for all values."""
ATTEMPTS = 400
TESTED = 40
"""Instances that a rule is tested on, besides."""
LARGEST = 150
"""Elements of an input; larger instances are left out."""


def prove(rules: Any, instances: int = INSTANCES, seed: int = 0, store: Store | None = None) -> list[Proof]:
    """Prove rules for all values of their inputs at shapes drawn, as far as that is possible; test all of them.

    Args:
        rules: a rule, or any iterable of rules, rule sets and ``DFPatternCallback`` objects.
        instances: how many instances to prove of each rule.
        seed: of the random choices; the instances of a rule depend on it and on the rule's name only.
        store: where proofs are kept; one that is there is not made again.

    Returns:
        For each rule what is known of it.

    Raises:
        RuleError: ``rules`` holds something that is no rule.
    """
    return [_known(rule, instances, seed, store) or _prove(rule, instances, seed, store) for rule in flatten(rules)]


def _known(rule: Rule, instances: int, seed: int, store: Store | None) -> Proof | None:
    return None if store is None else store.find(rule, instances, seed)


class _SmallDraw(Draw):
    """Draws small tensors; floats are powers of two, with which constants are computed without rounding."""

    def __init__(self, rng: random.Random):
        super().__init__(rng, finite=True)
        self.dims = rng.choices((1, 2, 3), k=3)

    def array(self, ty: TensorType, special: bool = False) -> NDArray[Any]:
        if np.dtype(ty.dtype).kind in "biu":
            return super().array(ty)
        source = np.random.default_rng(self.rng.getrandbits(63))
        values = source.choice((0.25, 0.5, 1.0, 2.0, 4.0), ty.concrete_shape)
        if not self.positive:
            values = values * source.choice((-1.0, 1.0), ty.concrete_shape)
        return np.asarray(values, ty.dtype)


def _prove(rule: Rule, instances: int, seed: int, store: Store | None) -> Proof:
    proof = _proof(rule, instances, seed)
    if store is not None:
        store.keep(proof, rule, instances, seed)
    return proof


def _proof(rule: Rule, wanted: int, seed: int) -> Proof:
    start = time.perf_counter()
    (verdict,) = verify(rule, TESTED, seed)
    failed = {"unsound": Status.REFUTED, "unmatched": Status.UNKNOWN, "failed": Status.UNKNOWN}.get(verdict.status)
    if failed is not None:
        seconds = time.perf_counter() - start
        return Proof(rule.name, rule.soundness, failed, detail=verdict.detail, seconds=seconds)
    found = _Found()
    if isinstance(rule, (FoldConstants, Injectivity)):
        found.reason = "the rule is no equation of two sides"
    elif isinstance(rule, (Rewrite, PythonRule)):
        _prove_instances(rule, wanted, seed, found)
    proved = not found.reason and found.proved > 0
    return Proof(
        rule.name,
        rule.soundness,
        Status.VALUES if proved else Status.TESTED,
        proved and found.exact,
        found.proved if proved else verdict.instances,
        tuple(sorted(found.assumes)) if proved else (),
        "" if proved else found.reason or "no instance is small enough",
        time.perf_counter() - start,
    )


class _Found:
    """What was found of the instances of a rule."""

    def __init__(self) -> None:
        self.proved = 0
        self.exact = True
        self.assumes: set[str] = set()
        self.reason = ""


def _prove_instances(rule: Rewrite | PythonRule, wanted: int, seed: int, found: _Found) -> None:
    rng = random.Random(f"prove {seed} {rule.name}")
    stream = draw_instances(rule, lambda: _SmallDraw(rng), wanted * ATTEMPTS)
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
            for other in others:
                _prove_instance(instance, other, found)
                if found.reason:
                    return
            found.proved += bool(others)
            if found.proved >= wanted:
                return


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
