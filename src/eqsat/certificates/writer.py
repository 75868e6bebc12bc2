"""Writing certificates: the necessary steps of an explanation, over terms of the two functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from eqsat.certificates.certificate import COMMUTE, FIELD, FOLD, Certificate, Step
from eqsat.certificates.checker import Pair, Replay
from eqsat.certificates.levels import Levels
from eqsat.certificates.literals import NotPlain, literal_of
from eqsat.certificates.terms import Terms
from eqsat.egraph.derivation import Congruence
from eqsat.egraph.journal import Equation, Journal
from eqsat.egraph.rule import FoldConstants, Injectivity, Rewrite, Rule, Soundness
from eqsat.egraph.rule_version import version_of
from eqsat.errors import EqsatError
from eqsat.pipeline.explain import Explanation
from eqsat.relay.dataflow_pattern import DFPattern
from eqsat.relay.expr import Expr, Op, Var
from eqsat.relay.traits import Trait
from eqsat.relay.ty import Type
from eqsat.relay.visitor import children_first, post_order

_BUILT_IN = (COMMUTE, FOLD, FIELD)
_LEAST_DEPTH = 2
"""Minimum number of levels below a step's terms that are searched for constants."""


class Recorder:
    """Collects the steps of a certificate.

    Args:
        pair: The two functions.
        rules: The rules that steps may name.
    """

    def __init__(self, pair: Pair, rules: Iterable[Rule]):
        self.pair = pair
        self.terms = pair.terms
        self.rules = {rule.name: rule for rule in rules}
        self.steps: list[Step] = []
        self.uncovered: list[str] = []
        self._taken: set[Step] = set()

    def step(self, rule: str, left: Sequence[int], right: Sequence[int], over: Sequence[int] = ()) -> None:
        """Add a step, unless it proves nothing new."""
        step = Step(FOLD if isinstance(self.rules.get(rule), FoldConstants) else rule, *map(tuple, (left, right, over)))
        if step not in self._taken and step.left != step.right:
            self._taken.add(step)
            self.steps.append(step)
        for one, other in zip(left, right, strict=True):
            self.terms.equate(one, other)

    def certificate(self, opset: int | None = None) -> Certificate:
        """Return the certificate of all steps."""
        found = Certificate(
            self.pair.digests[0],
            self.pair.digests[1],
            opset,
            {},
            Soundness.EXACT.value,
            uncovered=list(dict.fromkeys(self.uncovered)),
        )
        _Numbering(self, found).take(self.steps)
        named = dict.fromkeys(step.rule for step in found.steps if step.rule not in _BUILT_IN)
        found.rules = {name: version_of(self.rules[name]) for name in named}
        return found


class _Numbering:
    """Puts steps and their terms into a certificate."""

    def __init__(self, recorder: Recorder, found: Certificate):
        self.recorder = recorder
        self.terms = recorder.terms
        self.base = recorder.pair.size
        self.found = found
        self._numbers: dict[int, int] = {}

    def take(self, steps: Iterable[Step]) -> None:
        for step in steps:
            try:
                parts = [tuple(map(self._number, part)) for part in (step.left, step.right, step.over)]
            except NotPlain as why:
                self.found.uncovered.append(f"a step of {step.rule}: {why}")
                continue
            self.found.steps.append(Step(step.rule, *parts))

    def _number(self, term: int) -> int:
        def new_children(one: int) -> Sequence[int]:
            return [each for each in self.terms.children[one] if each >= self.base and each not in self._numbers]

        new = [term] if term >= self.base and term not in self._numbers else []
        for one in children_first(new, new_children):
            self.found.terms.append(self._entry(one))
            self._numbers[one] = self.base + len(self.found.terms) - 1
        return self._numbers.get(term, term)

    def _entry(self, term: int) -> list[Any]:
        head = self.terms.heads[term]
        children = [self._numbers.get(child, child) for child in self.terms.children[term]]
        if head.kind == "constant":
            data = head.value.data
            told = {"dtype": data.dtype, "shape": list(data.shape), "bytes": data.numpy().tobytes().hex()}
            self.found.constants.append(told)
            return ["constant", len(self.found.constants) - 1]
        if head.kind == "tuple":
            return ["tuple", children]
        if head.kind == "project":
            return ["project", int(head.value), children]
        if head.op is None:
            raise NotPlain(f"there is a new input {head.key}")
        return ["call", head.op.name, self._attributes(term), children]

    def _attributes(self, term: int) -> Any:
        """The attributes of a call, or the number of a call of the models with the same."""
        head = self.terms.heads[term]
        attrs = head.value
        if attrs is None:
            return None
        try:
            return {name: literal_of(attrs[name]) for name in attrs}
        except NotPlain:
            for number in range(self.base):
                other = self.terms.heads[number]
                if other.op is head.op and other.key == head.key:
                    return number
            raise


class JournalWriter:
    """Records the steps that a journal proves.

    Args:
        recorder: Takes the steps.
        journal: What rules equated.
        closed: The closure of its equations.
        types: The types of the graph's nodes.
        leaf: Gives the term that a variable of the graph stands for.
        depth: How many bodies the graph is in.
    """

    def __init__(
        self,
        recorder: Recorder,
        journal: Journal,
        closed: Congruence,
        types: Mapping[Expr, Type],
        leaf: Callable[[Var], int],
        depth: int = 0,
    ):
        self.recorder = recorder
        self.journal = journal
        self.closed = closed
        self.leaf = leaf
        self.depth = depth
        self.terms: Terms = recorder.terms
        self._numbers: dict[int, int] = {}
        self._index = {equation: index for index, equation in enumerate(journal.equations)}
        self._depths: dict[str, int] = {}
        self._constants: dict[int, int] | None = None
        self._facts: _Facts | None = None
        self.types = types
        self._level_pairs: dict[tuple[int, int], None] = {}
        self._recorded: set[Equation] = set()
        self._sources: dict[int, int] = {}

    def prove(self, source: int, target: int) -> None:
        """Record the steps that make two terms of the journal equal, and all steps that these depend on."""
        needs: dict[Equation, list[Equation]] = {}
        first = self._between([(source, target)])
        agenda = list(first)
        while agenda:
            equation = agenda.pop()
            if equation not in needs:
                needs[equation] = [*self._between(self._premises(equation)), *self._computed(equation)]
                agenda += needs[equation]
        ordered = sorted(needs, key=self._index.__getitem__)
        for equation in children_first(ordered, needs.__getitem__):
            self._record(equation)

    def number(self, term: int) -> int:
        """The term of the certificate for a term of the journal."""
        return self.translate(term, self.terms, self._numbers)

    def translate(self, term: int, into: Terms, numbers: dict[int, int]) -> int:
        """A term of the journal among other terms; ``numbers`` holds those that were translated before."""
        terms = self.journal.terms
        missing = [term] if term not in numbers else []
        for one in children_first(missing, lambda one: [child for child in terms[one][2:] if child not in numbers]):
            symbol, atom, *children = terms[one]
            numbers[one] = self._translated(into, symbol, atom, [numbers[child] for child in children])
        return numbers[term]

    def _translated(self, into: Terms, symbol: int, atom: int, below: list[int]) -> int:
        kind, op, _ = self.journal.vocabulary.symbols[symbol]
        value = self.journal.vocabulary.atoms[atom].value
        if op is not None:
            return into.computed(op, value, below, None, self.depth)
        if kind == "constant":
            return into.constant(value)
        if kind == "var":
            return self.leaf(value) if into is self.terms else into.variable(value, value, self.types.get(value))
        if kind == "tuple":
            return into.tuple_of(below)
        if kind == "joined":
            return into.tuple_of([field for part in below for field in into.children[part]])
        if kind == "project":
            return into.field_of(below[0], value)
        raise NotPlain(f"the graph has a {kind} node")

    def _record(self, equation: Equation) -> None:
        if equation in self._recorded:
            return
        together = self.journal.together.get(equation, (equation,))
        self._recorded.update(together)
        left, right = ([self.number(getattr(each, side)) for each in together] for side in ("left", "right"))
        if self._is_fold(equation):
            left = [self._unrounded(equation.left)]
        over = [self.number(term) for term in self._calls(equation)]
        self.recorder.step(equation.rule, left, right, over)

    # ---- what steps rest on

    def _between(self, pairs: Iterable[tuple[int, int]]) -> list[Equation]:
        """The equations that make each pair of terms equal."""
        terms, found = self.journal.terms, dict[Equation, None]()
        stack, seen = list(pairs), set[tuple[int, int]]()
        while stack:
            pair = stack.pop()
            if pair in seen or pair[0] == pair[1]:
                continue
            seen.add(pair)
            for edge in self.closed.path(*pair):
                if edge.equation is not None:
                    found[edge.equation] = None
                else:
                    stack += zip(terms[edge.source][2:], terms[edge.target][2:], strict=True)
        return list(found)

    def _premises(self, equation: Equation) -> list[tuple[int, int]]:
        """Pairs of terms that a step takes to be equal: constants and their values, equal calls."""
        pairs = []
        for each in self.journal.together.get(equation, (equation,)):
            for term in self._near(each.left, self._depth(each.rule)):
                constant = self._constant(term)
                if constant is not None and constant != term:
                    pairs.append((term, constant))
            rule = self.recorder.rules.get(each.rule)
            if isinstance(rule, Rewrite) and rule.numbers:
                most = max(condition.level for condition in rule.numbers)
                for term in self._near(each.left, self._depth(each.rule)):
                    self._level_pairs |= dict.fromkeys(self.facts.reasons(term, most))
                pairs += self._level_pairs
        calls = self._calls(equation)
        if calls:
            pairs += [calls, *zip([self.journal.terms[call][2] for call in calls], equation[1:], strict=True)]
        return pairs

    def _computed(self, equation: Equation) -> list[Equation]:
        """Where a value is computed from constants that were computed before, how these were: they were rounded."""
        if not self._is_fold(equation):
            return []
        operands = self.journal.terms[equation.left][2:]
        found = [self._folds[each] for each in operands if each in self._folds]
        return [each for each in found if self._index[each] < self._index[equation]]

    def _unrounded(self, term: int) -> int:
        """A term over constants, over what these were computed from in place of those that were computed."""

        def sources(one: int) -> list[int]:
            fold = self._folds_of[one]
            return [each.left for each in self._computed(fold) if each.left not in self._sources]

        for one in children_first([] if term in self._sources else [term], sources):
            known = {each.right: self._sources[each.left] for each in self._computed(self._folds_of[one])}
            symbol, atom, *children = self.journal.terms[one]
            below = [known[child] if child in known else self.number(child) for child in children]
            self._sources[one] = self._translated(self.terms, symbol, atom, below)
        return self._sources[term]

    @cached_property
    def _folds_of(self) -> dict[int, Equation]:
        """Term over constants -> the step that computed it."""
        return {equation.left: equation for equation in self.journal.equations if self._is_fold(equation)}

    @cached_property
    def _folds(self) -> dict[int, Equation]:
        """Constant -> the step that computed it first."""
        folds = [equation for equation in self.journal.equations if self._is_fold(equation)]
        return {equation.right: equation for equation in reversed(folds)}

    def _is_fold(self, equation: Equation) -> bool:
        return isinstance(self.recorder.rules.get(equation.rule), FoldConstants)

    def _near(self, term: int, depth: int) -> Iterable[int]:
        """The terms down to some levels below a term."""
        found, level = dict.fromkeys([term]), [term]
        for _ in range(depth):
            level = [child for each in level for child in self.journal.terms[each][2:] if child not in found]
            found |= dict.fromkeys(level)
        return [each for each in found if self.closed.knows(each)]

    def _depth(self, name: str) -> int:
        """Levels of a rule's left side."""
        if name not in self._depths:
            rule = self.recorder.rules.get(name)
            depth, level = 0, list[DFPattern](rule.lhs) if isinstance(rule, Rewrite) else []
            while level:
                level = [child for pattern in level for child in pattern.children()]
                depth += 1
            self._depths[name] = max(_LEAST_DEPTH, depth)
        return self._depths[name]

    def _constant(self, term: int) -> int | None:
        """A constant that a term of the journal equals."""
        if self._constants is None:
            symbols, terms = self.journal.vocabulary.symbols, self.journal.terms
            known = [each for each in range(len(terms)) if symbols[terms[each][0]].kind == "constant"]
            self._constants = {self.closed.find(each): each for each in reversed(known) if self.closed.knows(each)}
        return self._constants.get(self.closed.find(term))

    def _calls(self, equation: Equation) -> tuple[int, int] | tuple[()]:
        """The equal calls of an injective operator by which two terms were found to be equal."""
        if not isinstance(self.recorder.rules.get(equation.rule), Injectivity):
            return ()
        return self.facts.over.get(equation, ())

    @property
    def facts(self) -> _Facts:
        """What follows from all equations."""
        if self._facts is None:
            self._facts = _Facts(self)
        return self._facts


class _Facts:
    """What rules could know from all equations of a journal, in terms beside those of a certificate.

    Attributes:
        over: For each equation of arguments, two equal calls of them that were known before.
    """

    def __init__(self, writer: JournalWriter):
        journal = writer.journal
        self.terms = Terms()
        self.levels = Levels(self.terms)
        self.over: dict[Equation, tuple[int, int]] = {}
        self._numbers: dict[int, int] = {}
        self._of: dict[int, int] = {}
        self._writer = writer
        waiting = list(journal.equations)
        count = len(waiting) + 1
        while len(waiting) < count:  # what a rule noted late may be known only later
            count = len(waiting)
            waiting = [equation for equation in waiting if not self._take(equation)]

    def number(self, term: int) -> int:
        """The term here for a term of the journal."""
        return self._writer.translate(term, self.terms, self._numbers)

    def of(self, number: int) -> int:
        """The term of the journal for a term here."""
        if number not in self._of:
            self._of = {each: term for term, each in self._numbers.items()}
        return self._of[number]

    def reasons(self, term: int, level: int) -> Iterable[tuple[int, int]]:
        """Pairs of equal terms from which it is known that a term holds numbers of a level."""
        self.levels.level(self.number(term), level)
        stack, seen = [term], set[int]()
        while stack:
            one = stack.pop()
            of = self.terms.find(self.number(one))
            if of in seen or of not in self.levels.reasons:
                continue
            seen.add(of)
            reason = self.of(self.levels.reasons[of])
            if reason != one:
                yield one, reason
            stack += self._writer.journal.terms[reason][2:]

    def _take(self, equation: Equation) -> bool:
        """Go on with an equation, unless it is one of arguments of calls that are not known to be equal yet."""
        left, right = self.number(equation.left), self.number(equation.right)
        if isinstance(self._writer.recorder.rules.get(equation.rule), Injectivity):
            calls = self._calls(left, right)
            if calls is None:
                return False
            self.over[equation] = calls
        self.terms.equate(left, right)
        return True

    def _calls(self, left: int, right: int) -> tuple[int, int] | None:
        terms = self.terms
        users = [terms.users[terms.find(each)] for each in (left, right)]
        calls = [
            [one for one in each if len(terms.children[one]) == 1 and _is_injective(terms.heads[one].op)]
            for each in users
        ]
        known = {(terms.heads[one].op, terms.find(one)): one for one in calls[0]}
        for one in calls[1]:
            other = known.get((terms.heads[one].op, terms.find(one)))
            if other is not None:
                return self.of(other), self.of(one)
        return None


def _is_injective(op: Op | None) -> bool:
    return op is not None and op.has(Trait.INJECTIVE)


def record_values(recorder: Recorder, term: int, expr: Expr, numbers: Mapping[Expr, int]) -> bool:
    """Record that a chosen term equals a graph with folded constants; return whether that could be shown.

    Args:
        recorder: Takes the steps.
        term: The term.
        expr: The graph.
        numbers: The terms of its nodes.
    """
    terms = recorder.terms
    stack, seen = [(term, numbers[expr])], set[tuple[int, int]]()
    while stack:
        pair = stack.pop()
        one, other = pair
        if pair in seen or one == other:
            continue
        seen.add(pair)
        heads, below = (terms.heads[one], terms.heads[other]), (terms.children[one], terms.children[other])
        if heads[1].kind == "constant":
            recorder.step(FOLD, [one], [other])
        elif (heads[0].kind, heads[0].op, heads[0].key, len(below[0])) == (
            heads[1].kind,
            heads[1].op,
            heads[1].key,
            len(below[1]),
        ):
            stack += zip(*below, strict=True)
        else:
            return False
    return True


def closure_of(journal: Journal, terms: Iterable[int]) -> Congruence:
    """The closure of all equations of a journal, with some terms in it."""
    closed = Congruence(journal.terms)
    for term in terms:
        closed.add(term)
    for equation in list(journal.equations):
        closed.equate(equation)
    return closed


def record_choice(
    recorder: Recorder, explanation: Explanation, chosen: Expr, leaf: Callable[[Var], int], depth: int = 0
) -> dict[Expr, int]:
    """Record that a given graph equals the one that was chosen; the terms of the chosen graph's nodes.

    Args:
        recorder: Takes the steps.
        explanation: How the chosen graph came about.
        chosen: The chosen graph, constants folded.
        leaf: Gives the term that a variable stands for.
        depth: How many bodies the graph is in.

    Raises:
        NotPlain: The graph has nodes that terms are not made of.
    """
    _, source, target = explanation.proof
    closed = closure_of(explanation.journal, (source, target))
    steps = JournalWriter(recorder, explanation.journal, closed, explanation.region.types, leaf, depth)
    steps.prove(source, target)
    inputs: dict[Expr, int] = {node: leaf(node) for node in post_order(chosen) if isinstance(node, Var)}
    numbers = recorder.terms.add(chosen, {}, inputs, depth)
    if not record_values(recorder, steps.number(target), chosen, numbers):
        recorder.uncovered.append("that what was chosen is the graph that was built")
    return numbers


def finished(recorder: Recorder, pair: Pair, opset: int | None = None) -> tuple[Certificate, Replay]:
    """The certificate of all that was recorded, and its steps as the checker took them.

    What the checker refuses is told as uncovered.

    Args:
        recorder: The steps.
        pair: The two functions anew.
        opset: What the certificate tells of the opset.
    """
    found = recorder.certificate(opset)
    steps = Replay(pair, found, recorder.rules.values())
    taken: list[Step] = []
    for step in found.steps:
        try:
            steps.take(step)
        except EqsatError as why:
            found.uncovered.append(f"a step of {step.rule}: {why}")
        else:
            taken.append(step)
    found.steps = taken
    named = [step.rule for step in taken]
    found.rules = {name: version for name, version in found.rules.items() if name in named}
    found.soundness = steps.soundness
    if not found.uncovered and not pair.terms.same(*pair.roots):
        found.uncovered.append("that the chosen graph is the written one")
    return found, steps
