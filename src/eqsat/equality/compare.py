"""Deciding whether two graphs are equal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Unpack

import numpy as np

from eqsat.collector import paused_gc
from eqsat.egraph.report import Limits
from eqsat.egraph.rule import Soundness
from eqsat.equality.alike import changes
from eqsat.equality.constants import WITHIN_ROUNDING
from eqsat.equality.fingerprints import SAME, Fingerprint, fingerprint
from eqsat.equality.groups import FIRST, SECOND
from eqsat.equality.joining import Joined, join
from eqsat.equality.parting import Parting
from eqsat.equality.proof import Prover
from eqsat.equality.result import DIFFERENT, EQUAL, UNKNOWN, Difference, Equality, Pair, Part, Rounded
from eqsat.equality.rounding import apart, bounds, leaves, results
from eqsat.equality.samples import Sample, given_samples, samples
from eqsat.equality.widened import Evaluation
from eqsat.errors import ArgumentError
from eqsat.pipeline.options import Options, Rules, SaturateKeywords, takes
from eqsat.relay.expr import Call, Constant, Expr, Op
from eqsat.relay.fold import Foreign
from eqsat.relay.interpreter import evaluate
from eqsat.relay.module import IRModule
from eqsat.relay.values import Value

_PATIENCE = 1.0
"""Maximum time of the evaluation of one input, in seconds, for evaluating more than two."""


@takes(SaturateKeywords)
@paused_gc()
def equal(
    first: Expr | IRModule,
    second: Expr | IRModule,
    rules: Rules | None = None,
    limits: Limits | None = None,
    *,
    inputs: Sequence[Mapping[Any, Any]] = (),
    match: Mapping[str, str] | None = None,
    exact_constants: bool = False,
    **keywords: Unpack[SaturateKeywords],
) -> Equality:
    """Decide whether two graphs compute the same values, and if not, find where they differ.

    The answer is ``equal`` only if rules prove it; agreement on some inputs is not enough. The answer is ``different``
    only if an input is found on which the results differ by more than rounding explains. Otherwise the answer is
    ``unknown``, and the result contains the smallest parts that remain to be proved.

    Args:
        first, second: Expressions, functions or modules; of a module, the function ``main`` is compared. Parameters of
            two functions correspond by name if the names are the same, otherwise by order. Free variables of
            expressions correspond by name; a variable of only one expression is an input of its own.
        rules: The rules that may prove the equality, as for :func:`eqsat.saturate`; by default ``eqsat.rules.default``
            and ``eqsat.rules.spelled``.
        limits: The limits of saturation. The time limit applies to the whole call, the others to each saturation.
        inputs: The inputs on which to compare; each is a mapping from the names of all variables to arrays. By default,
            inputs are generated.
        match: Name of a variable of ``second`` -> name of the corresponding variable of ``first``.
        exact_constants: Whether a constant may replace a computation of the other graph only if both agree in every
            bit. By default, they may differ by rounding.
        keywords: The option ``on_error``, or all options as ``options``: see :class:`eqsat.Options`.

    Raises:
        ArgumentError: The variables or results differ in number or type, or a graph uses random numbers.
        EqsatError: As for :func:`eqsat.saturate`.
    """
    options = Options.of(keywords, rules=rules, limits=limits)
    start = time.perf_counter()
    if options.rules is None:
        from eqsat.rules import RuleSet, default, in_sight, spelled  # all the rules take a while to load

        options = replace(options, rules=RuleSet("equal", [in_sight(default), spelled]))
    comparison = Comparison(join(first, second, match), options, exact_constants=exact_constants)
    comparison.seconds["join"] = time.perf_counter() - start
    given = given_samples(comparison.joined.params, inputs) if inputs else None
    return comparison.answer(lambda: given or samples(comparison.joined.params, comparison.joined.types))


class Comparison:
    """Two joined graphs, and what is known about them.

    Args:
        joined: The graphs.
        options: Rules and limits of proofs.
        foreign: A function that computes operators that are not Relay's.
        place: A function that returns where a node of one of the graphs comes from.
        is_computed: A function that returns whether a constant of one of the graphs was computed by the importer.
        exact_constants: As for :func:`equal`.
    """

    def __init__(
        self,
        joined: Joined,
        options: Options,
        foreign: Foreign | None = None,
        place: Callable[[Expr], str] = lambda node: str(node.span or ""),
        is_computed: Callable[[Expr], bool] = lambda node: False,
        exact_constants: bool = False,
    ):
        self.joined = joined
        self._options = options
        self._start = time.perf_counter()
        self._exact_constants = exact_constants
        owned = [(node, own) for origins in joined.origins for node, own in origins.items()]
        self._computed = {node for node, own in owned if isinstance(own, Constant) and is_computed(own)}
        self.prover = Prover(joined, options, self._computed, exact_constants)
        self.evaluation = Evaluation(joined.types, foreign)
        self.plain = Evaluation(joined.types, foreign, widens=False)
        self.place = place
        self.seconds: dict[str, float] = {}
        self.samples: list[Sample] = []
        self.results: dict[Expr, list[Value | None]] = {}
        self.prints: dict[Expr, Fingerprint] = {}

    def answer(self, inputs: Callable[[], Iterable[Sample]]) -> Equality:
        """Whether the graphs are equal.

        Args:
            inputs: A function that returns inputs; it is called only if there is no proof without them.

        Raises:
            ArgumentError: They use random numbers.
        """
        first, second = self.joined.roots
        if first is second:
            return self._equality(EQUAL)
        self._refuse_random()
        samples = iter(inputs())
        changed = changes(self.prover.groups)
        if changed is not None:
            found = self._compared(changed, samples)
            if found is not None:
                return found
        self._timed("prove", self.prover.prove_whole)
        if self.prover.groups.is_one:
            return self._proved()
        self._timed("evaluate", lambda: self._evaluate(samples))
        parting = self._parting()
        found = self._different(parting)
        if found is not None:
            return found
        # where they differ in double precision it is told by all that is computed from the whole of both graphs
        wide = self._timed("part", parting.suspected) if self._apart() else ()
        partners = {node: [other for _, other in near] for node, near in parting.partners.items()}
        self._timed("prove", lambda: self.prover.prove_parts(partners))
        if self.prover.groups.is_one:
            return self._proved()
        known = bool(self.results) and any(value is not None for value in self.results[first])
        reason = "they agree on all inputs that were tried, and the rules do not prove it"
        found = self._equality(
            UNKNOWN,
            reason=reason if known else "they could not be evaluated, and the rules prove nothing",
            needed=self._timed("prove", lambda: self._needed(partners)),
        )
        return replace(found, pairs=wide or self._timed("part", parting.unproved))

    def _compared(self, changed: Sequence[tuple[Expr, Expr]], samples: Iterator[Sample]) -> Equality | None:
        """The answer for graphs of one form, if their values say that they differ.

        Args:
            changed: The nodes at which they differ.
            samples: Inputs, of which as many are taken as are needed.
        """
        self._timed("evaluate", lambda: self._take(list(islice(samples, 1))))
        if not self._apart():
            return None
        parting = self._parting()
        found = self._different(parting)
        constants = [pair for pair in changed if pair[0] in self.prover.groups.constant]
        if found is not None or len(constants) > 1 or any(not self._computed.isdisjoint(pair) for pair in constants):
            return found  # several constants may make up for each other, and one that was computed be within rounding
        self._timed("evaluate", lambda: self._evaluate(samples))
        parting = self._parting()
        found = self._different(parting)
        return found or self._equality(
            UNKNOWN,
            reason="in double precision they differ, but by no more than rounding in their own floats explains",
            pairs=self._timed("part", parting.different),
        )

    def _parting(self) -> Parting:
        """Return where the graphs differ, according to what is known about their values."""
        return Parting(self.joined, self.prover, self.prints, self.place)

    def _different(self, parting: Parting) -> Equality | None:
        """Return the answer if there is an input on which the graphs differ by more than rounding explains."""
        difference = self._timed("evaluate", self._difference)
        if difference is None:
            return None
        pairs = self._timed("part", lambda: self._valued(parting.different(), difference))
        return self._equality(DIFFERENT, difference=difference, pairs=pairs)

    def _proved(self) -> Equality:
        """Return the answer if there is a proof."""
        rules = self._timed("explain", self.prover.rules)
        rounded = []
        for node, computed in self.prover.rounded.items():
            assert isinstance(node, Constant)
            given, made = node.data.numpy(), evaluate(computed)
            differing = int(np.count_nonzero(given != made))
            if differing:
                own = next(origins[node] for origins in self.joined.origins if node in origins)
                part = Part(own, self.place(own), node, origin=own.span)
                rounded.append(Rounded(part, given.size, differing, apart(given, made)))
        if not rounded:
            rules.pop(WITHIN_ROUNDING, None)
        return self._equality(EQUAL, rules=rules, rounded=tuple(rounded))

    def _needed(self, partners: Mapping[Expr, Sequence[Expr]]) -> Mapping[str, Soundness]:
        """Return the rules of a proof that holds if intermediate values are finite; none if there is no such proof."""
        from eqsat.rules import finite  # all the rules take a while to load

        given = list(self._options.schedule.rules)
        names = {rule.name for rule in given}
        more = [rule for rule in finite if rule.name not in names]
        if not more:
            return {}
        left = self._options.after(time.perf_counter() - self._start)
        prover = Prover(self.joined, replace(left, rules=[*given, *more]), self._computed, self._exact_constants)
        prover.prove_whole()
        if not prover.groups.is_one:
            prover.prove_parts(partners)
        return prover.rules() if prover.groups.is_one else {}

    # ---- values

    def can_take(self, sample: Sample) -> bool:
        """Return whether the first graph can be evaluated on an input."""
        root = self.joined.roots[0]
        nodes = self.prover.groups.of(FIRST)
        return any(values[0] is not None for node, values in self.evaluation.run(nodes, [sample]) if node is root)

    def _evaluate(self, inputs: Iterator[Sample]) -> None:
        """Compute fingerprints of all nodes, on as many inputs as time permits."""
        start = time.perf_counter()
        if not self.samples:
            self._take(list(islice(inputs, 1)))
        slow = time.perf_counter() - start > _PATIENCE
        more = list(islice(inputs, 1) if slow else inputs)
        if more:
            self._take(more)

    def _take(self, inputs: list[Sample]) -> None:
        types, roots = self.joined.types, set(self.joined.roots)
        self.samples += inputs
        for node, values in self.evaluation.run(self.joined.nodes, inputs):
            if node in roots:
                self.results.setdefault(node, []).extend(values)
            known = fingerprint(types[node], values)
            if known is None:
                continue
            before = self.prints.get(node)
            if before is None:
                self.prints[node] = known
            else:
                numbers = np.concatenate([before.numbers, known.numbers])
                self.prints[node] = Fingerprint(before.kind, numbers, np.concatenate([before.sizes, known.sizes]))

    def _difference(self) -> Difference | None:
        """An input on which the results differ by more than rounding explains, also in the floats of the graphs."""
        for index, away in self._apart():
            found = self._told(index, self.samples[index], away)
            if found is not None:
                return found
        return None

    def _apart(self) -> list[tuple[int, list[float]]]:
        """Return the inputs on which results differ in double precision, by number, and the differences of arrays."""
        found = []
        first, second = self.joined.roots
        for index in range(len(self.samples)):
            one, other = leaves(self.results[first][index]), leaves(self.results[second][index])
            if one is None or other is None:
                continue
            away = [apart(*pair) for pair in zip(one, other, strict=True)]
            sizes = [_size(each) for each in one]
            if any(each > SAME * size for each, size in zip(away, sizes, strict=True)):
                found.append((index, away))
        return found

    def _valued(self, pairs: Iterable[Pair], difference: Difference) -> tuple[Pair, ...]:
        """Pairs with the values of their nodes on the input on which the graphs differ."""
        pairs = tuple(pairs)
        sample = {param: difference.inputs[param.name_hint] for param in self.joined.params}
        wanted = {part.node for pair in pairs for part in pair if part is not None}
        run = self.plain.run(self.joined.nodes, [sample])
        values = {node: value for node, (value,) in run if node in wanted}

        def valued(part: Part | None) -> Part | None:
            return part and replace(part, value=values.get(part.node))

        return tuple([Pair(valued(first), valued(second)) for first, second in pairs])

    def _told(self, index: int, sample: Sample, away: Sequence[float]) -> Difference | None:
        first, second = self.joined.roots
        allowed = bounds(self.joined, self.evaluation, sample, self.results, index)
        beyond = [each > bound for each, bound in zip(away, allowed, strict=True)]
        if not any(beyond):
            return None
        plain = results(self.joined, self.plain, [sample])
        one, other = plain[first][0], plain[second][0]
        ones, others = leaves(one), leaves(other)
        if ones is None or others is None:
            return None
        seen = [apart(*pair) for pair in zip(ones, others, strict=True)]
        excess = [min(s, a) / b if b else np.inf for s, a, b in zip(seen, away, allowed, strict=True)]
        excess = [
            each if is_beyond and s > b else 0.0
            for each, is_beyond, s, b in zip(excess, beyond, seen, allowed, strict=True)
        ]
        output = int(np.argmax(excess))
        if not excess[output]:
            return None
        values = {param.name_hint: sample[param] for param in self.joined.params}
        return Difference(values, (one, other), output, seen[output], allowed[output])

    # ---- telling

    def _refuse_random(self) -> None:
        operators = [node.op for node in self.joined.nodes if isinstance(node, Call) and isinstance(node.op, Op)]
        names = dict.fromkeys(op.name for op in operators if op.get_attr("TOpIsStateful"))
        if names:
            raise ArgumentError(f"graphs with random operators cannot be compared: they use {', '.join(names)}")

    def _timed(self, phase: str, work: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        found = work()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - start
        return found

    def _equality(self, answer: str, **known: Any) -> Equality:
        seconds = self.prover.groups.of(SECOND)
        proved = len(seconds) if answer == EQUAL else sum(map(self.prover.groups.is_shared, seconds))
        return Equality(
            answer,
            self.joined.roots,
            self.prover.groups.partners(),
            proved=proved,
            nodes=len(seconds),
            samples=len(self.samples),
            seconds=self.seconds,
            **known,
        )


def _size(array: Any) -> float:
    """The largest magnitude of a number in an array."""
    wide = np.abs(array.astype(np.float64))
    return float(np.max(wide[np.isfinite(wide)], initial=0.0))
