"""The checker of certificates: it replays the steps, each of which must be an instance of its rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eqsat.certificates.certificate import COMMUTE, FIELD, FOLD, Certificate, Step
from eqsat.certificates.decoder import Decoder
from eqsat.certificates.digest import graph_digest
from eqsat.certificates.folding import Values
from eqsat.certificates.instances import Instances, NoInstance
from eqsat.certificates.levels import Levels
from eqsat.certificates.terms import Calls, Terms
from eqsat.egraph.rule import Injectivity, PythonRule, Rewrite, Rule, Soundness
from eqsat.egraph.rule_version import version_of
from eqsat.errors import CertificateError, EqsatError
from eqsat.relay.dataflow_pattern.analysis import SWAPPED
from eqsat.relay.expr import Expr, Function
from eqsat.relay.infer import infer_types, unknown_sizes
from eqsat.relay.traits import Trait
from eqsat.relay.ty import agree

WEAKER: list[str] = [each.value for each in (Soundness.EXACT, Soundness.ROUNDING, Soundness.FINITE)]
"""The soundness of steps, from strongest to weakest."""


@dataclass(frozen=True)
class Checked:
    """A certificate whose steps all hold.

    Attributes:
        steps: The number of steps.
        rules: The names of the rules that the steps use.
        soundness: The weakest soundness of a step.
        uncovered: Descriptions of the parts that no step proves.
    """

    steps: int
    rules: tuple[str, ...]
    soundness: str
    uncovered: tuple[str, ...]

    @property
    def proved(self) -> bool:
        """Whether the certificate proves that the functions compute the same values."""
        return not self.uncovered


class Pair:
    """The terms of two functions.

    Args:
        before, after: The functions.
        calls: The object that distinguishes calls of one operator by their attributes.
        by_name: Whether parameters of both functions correspond by name; otherwise by position.

    Attributes:
        inputs: The term of each parameter of both.
        size: The number of terms of the functions.

    Raises:
        CertificateError: They do not take the same arguments, or have nodes that terms do not support.
    """

    def __init__(self, before: Function, after: Function, calls: Calls | None = None, *, by_name: bool = False):
        self.terms = Terms(calls)
        self.functions = (before, after)
        sizes = [unknown_sizes(), map("#after-{}".format, range(1 << 62))]
        self.types = [infer_types(each, names=names) for each, names in zip(self.functions, sizes, strict=True)]
        self.numbers: list[dict[Expr, int]] = []
        self.inputs: dict[Expr, int] = {}
        for function, types in zip(self.functions, self.types, strict=True):
            self.inputs |= {
                param: self.terms.variable(param, param.name_hint if by_name else place, types.get(param))
                for place, param in enumerate(function.params)
            }
            self.numbers.append(self.terms.add(function.body, types, self.inputs))
        self.digests = [graph_digest(self.terms, *each) for each in zip(self.functions, self.numbers, strict=True)]
        self.roots = [numbers[function.body] for numbers, function in zip(self.numbers, self.functions, strict=True)]
        self.size = len(self.terms)
        self._check_inputs()

    def _check_inputs(self) -> None:
        """Check that both functions take the same arguments."""
        both = list(zip(self.functions, self.types, strict=True))
        one, other = [{self.inputs[each]: types.get(each) for each in function.params} for function, types in both]
        if one.keys() != other.keys() or not all(agree(one[term], other[term]) for term in one):
            told = [
                ", ".join([f"%{each.name_hint}: {types.get(each)}" for each in function.params])
                for function, types in both
            ]
            raise CertificateError(f"the functions take different arguments: {told[0]} and {told[1]}")


def check(pair: Pair, certificate: Certificate, rules: Iterable[Rule]) -> Checked:
    """Check a certificate that two functions compute the same values.

    Args:
        pair: The functions.
        certificate: The certificate.
        rules: The rules that the steps may use.

    Raises:
        CertificateError: The certificate belongs to other functions, or a step does not hold; the message names the
            step.
    """
    for which, mine, theirs in zip(
        ("before", "after"), pair.digests, (certificate.before, certificate.after), strict=True
    ):
        if mine != theirs:
            raise CertificateError(
                f"the certificate belongs to another model: the digest of the one {which} is {mine}, not {theirs}"
            )
    steps = Replay(pair, certificate, rules)
    steps.run()
    soundness = steps.soundness
    if not certificate.uncovered and not pair.terms.same(*pair.roots):
        raise CertificateError("the steps do not lead from the first model to the second")
    if certificate.soundness != soundness:
        raise CertificateError(f"the steps keep {soundness!r}, and not {certificate.soundness!r} as it says")
    named = tuple(dict.fromkeys(step.rule for step in certificate.steps))
    unused = sorted(set(certificate.rules) - set(named))
    if unused:
        raise CertificateError(f"no step uses the rules {', '.join(unused)}, whose versions the certificate lists")
    return Checked(len(certificate.steps), named, soundness, tuple(map(str, certificate.uncovered)))


class Replay:
    """Replays the steps of one certificate; the arguments are those of :func:`check`.

    Attributes:
        equations: For each step so far: its two terms, and the index of its soundness in ``WEAKER``.
    """

    def __init__(self, pair: Pair, certificate: Certificate, rules: Iterable[Rule]):
        self.terms = pair.terms
        self.decoded = Decoder(pair.terms, pair.size, certificate)
        self.certificate = certificate
        self.rules = {rule.name: rule for rule in rules}
        self.equations: list[tuple[int, int, int]] = []
        self.values = Values(self.terms)
        self.instances = Instances(self.terms, Levels(self.terms), self.values)
        self._kept = 0  # by the step that is taken
        self._versions: set[str] = set()

    @property
    def soundness(self) -> str:
        """The weakest soundness of the steps so far."""
        return WEAKER[max((kept for _, _, kept in self.equations), default=0)]

    def run(self) -> None:
        """Check one step after the other.

        Raises:
            CertificateError: A step does not hold; the message names it.
        """
        for number, step in enumerate(self.certificate.steps, 1):
            try:
                self.take(step)
            except EqsatError as why:
                raise CertificateError(f"step {number}, {step.rule}: {why}") from None

    def take(self, step: Step) -> None:
        """Check a step, and record its equation.

        Raises:
            EqsatError: The step does not hold.
        """
        self._kept = 0
        left, right, over = (list(map(self.decoded.term, each)) for each in (step.left, step.right, step.over))
        if step.rule in _BUILT_IN:
            if len(left) != 1 or len(right) != 1 or over:
                raise NoInstance("it has one term on each side")
            _BUILT_IN[step.rule](self, left[0], right[0])
        else:
            self._by_rule(self._rule(step.rule), left, right, over)
        for one, other in zip(left, right, strict=True):
            self.terms.equate(one, other)
            self.equations.append((one, other, self._kept))

    def _rule(self, name: str) -> Rule:
        """Return the rule with a name, if it has the version that the certificate states."""
        rule = self.rules.get(name)
        if rule is None:
            raise NoInstance("there is no such rule; give the rule sets that the model was optimized with")
        if name not in self._versions:
            mine, theirs = version_of(rule), self.certificate.rules.get(name)
            if mine != theirs:
                raise NoInstance(f"the rule is of version {mine} here, and was of version {theirs}")
            self._versions.add(name)
        self._kept = WEAKER.index(rule.soundness.value)
        return rule

    def _by_rule(self, rule: Rule, left: Sequence[int], right: Sequence[int], over: Sequence[int]) -> None:
        if isinstance(rule, Injectivity):
            self._injective(left, right, over)
        elif over:
            raise NoInstance("it is not a rule about arguments of calls")
        elif isinstance(rule, (Rewrite, PythonRule)):
            self.instances.check(rule, left, right)
        else:
            raise NoInstance("the rule is of a kind that the checker does not support")

    # ---- steps by no rule

    def _commute(self, left: int, right: int) -> None:
        one, other = self.terms.heads[left], self.terms.heads[right]
        below = self.terms.children[left], self.terms.children[right]
        if one[:2] != other[:2] or one.key != other.key or one.op is None or one.op.name not in SWAPPED:
            raise NoInstance("its sides are not calls of one commutative operator")
        if not all(map(self.terms.same, below[0], reversed(below[1]))) or len(below[0]) != len(below[1]):
            raise NoInstance("its sides do not have the same operands in exchanged order")

    def _fold(self, left: int, right: int) -> None:
        if not self.values.check(left, right):
            self._kept = WEAKER.index(Soundness.ROUNDING.value)
        self.instances.check_types(left, right)

    def _field(self, left: int, right: int) -> None:
        head = self.terms.heads[left]
        whole = self.terms.children[left][0] if head.kind == "project" else left
        fields = self.terms.children[whole] if self.terms.heads[whole].kind == "tuple" else ()
        if head.kind != "project" or head.value >= len(fields) or not self.terms.same(fields[head.value], right):
            raise NoInstance("its left side is not that field of a tuple")

    # ---- other kinds of rules

    def _injective(self, left: Sequence[int], right: Sequence[int], over: Sequence[int]) -> None:
        """Check that arguments are equal because an injective operator gives equal results for them."""
        if not len(left) == len(right) == 1 or len(over) != 2:
            raise NoInstance("it has one term on each side, and two calls")
        one, other = (self.terms.heads[each] for each in over)
        below = [self.terms.children[each] for each in over]
        if (
            one.op is None
            or one.op is not other.op
            or not one.op.has(Trait.INJECTIVE)
            or [len(each) for each in below] != [1, 1]
        ):
            raise NoInstance("the calls are not calls of one injective operator")
        if one.key != other.key and not one.op.has(Trait.VIEW):
            raise NoInstance("the calls have different attributes")
        if not self.terms.same(*over):
            raise NoInstance("the calls are not known to be equal")
        if not self.terms.same(below[0][0], left[0]) or not self.terms.same(below[1][0], right[0]):
            raise NoInstance("its sides are not the arguments of the calls")
        self.instances.check_types(left[0], right[0], exactly=True)


_BUILT_IN = {COMMUTE: Replay._commute, FOLD: Replay._fold, FIELD: Replay._field}
