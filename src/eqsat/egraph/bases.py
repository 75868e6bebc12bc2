"""Bases: what is more than a sum or product with a constant, and which base a chain of such sums and products has.

Where ``y`` is ``x * a + b`` and ``z`` is ``y * c + d``, rules by which constants meet take ``z`` apart at the base
``x`` and not at ``y``, so that a chain of ``n`` links has ``n`` forms and not as many as it has parts. Of several
bases, one of which may be a sum or product with a constant in another form, they take the earliest. A product of what
is itself scaled, ``(x * a) * y``, comes after all others: where ``a`` moves outward, ``x * y`` is the base. So do sums
of what is itself shifted, and ramps of what is scaled.

    level(class)      of a base: its smallest handle, a large number if it has none; more for what comes after all
                      others
    origin(class)     the lowest level of the bases from which the class comes by sums and products with constants
    unscaled(class)   the class is more than a product with a constant, and no product of one
    still(class)      the class is unscaled, or the product of what is with a scalar that is not moderate: no scalar
                      leaves a product of it
    unshifted(class)  the class is more than a sum with a constant, and no sum of one
    factor(class)     the class is a base, a sum with a constant, or a product of such a sum or with a constant that
                      is no scalar or not moderate: as a factor of a product it stays what it is while scalars move
                      outward. Bases that come after all others are factors once no scalar moves any more: they may
                      become products of them
    weighted(class)   the class is a product with a constant weight, or such a product with a bias, scaled, pooled,
                      moved or behind a ramp: a scale behind it may go into the weight
    plain(class)      the class is none of these
    absorbing(class)  the class is a product with a constant weight, or such a product with a bias or scaled: a scale
                      behind it goes into the weight, of whatever sign
    readers(class)    the operators of the given graph that read the class; 1 of what rules made
    own(class)        it has one reader: where others read a product, too, the weight that takes in the scale of one is
                      another one than theirs, and what is made of the product counts as weighted no more
    bare(class)       the class is none of the absorbing ones, or has several readers
    multiple(class, x), sum_of(class, x)
                      the class is a product or sum of x with a constant
    apart(class)      the class is a sum of two values that are not both multiples of one: a sum of multiples may turn
                      out to be one
    broad(class), stuck(class)
                      the class is a constant of more elements than one, or a scalar that is not moderate
    first(class)      the smallest handle that the class has in the given graph; a large number if it has none
    given(class)      the given graph contains the class
    linked(class, x)  of multiples and sums of x: 1 if x is one of the class, too, and else 0
    term(class)       the class is a base, a product of one with a constant, or a sum with a constant that is no scalar:
                      as a term of a sum it stays what it is

Each of two classes may be the other one scaled or shifted, by constants that cancel but for rounding. At most one of
them is :func:`derived` from the other then, so that rules which move such constants come to an end.
"""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.egraph.egraph import EGraph
from eqsat.egraph.engine import put
from eqsat.egraph.scales import is_moderate
from eqsat.egraph.vocabulary import Test
from eqsat.relay.expr import Constant, Op
from eqsat.relay.traits import Trait
from eqsat.relay.ty import TensorType, Type

_SUMS = ("add", "subtract")
_PRODUCTS = ("multiply", "divide")
AFFINE = (*_SUMS, *_PRODUCTS, "negative")
"""Operators that, with one operand that is no constant, scale or shift it; see :func:`linear`."""
MATRIX_PRODUCTS = ("nn.dense", "nn.matmul", "nn.batch_matmul")
WEIGHING = frozenset(
    [
        *MATRIX_PRODUCTS,
        *[f"nn.conv{rank}d{form}" for rank in (1, 2, 3) for form in ("", "_transpose")],
    ]
)
"""Operators that multiply data by a weight."""

_PASSED = ("nn.relu", "nn.leaky_relu")
"""Operators that positive scales pass."""

RAMPS = (*_PASSED, "clip")
"""These, and what is written in place of such."""

POOLS = (
    *[f"nn.{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3)],
    "nn.global_max_pool2d",
    "nn.global_avg_pool2d",
)
"""Operators that scales and shifts pass."""

EXTREMES = ("max", "min")
"""Reductions that scales and shifts pass which do not vary along their axes."""

_LAST = 1 << 40
_AFTER_ALL = 1 << 41
_NOWHERE = 1 << 42
_AFTER_OTHERS = f"(set (level e) {_AFTER_ALL + _LAST}) "
_BASE = f"(set (level e) {_LAST}) {put('(unscaled e)')} {put('(unshifted e)')}"
"""What is said of a class that no sum or product with a constant makes."""


def linear(name: str, operands: Sequence[str]) -> Sequence[str]:
    """Those operands of a sum or product that it is a multiple of, or shifts: a denominator is none."""
    return operands[:1] if name == "divide" else operands


def _stays(constant: Constant) -> bool:
    return bool(constant.data.size == 1 and not is_moderate(constant.data.numpy()))


def _has_more_elements(ty: Type) -> bool:
    return isinstance(ty, TensorType) and any(dim != 1 for dim in ty.shape)


def derived(whole: str, operand: str) -> str:
    """Premises that a sum or product with a constant comes from its operand.

    Where the operand is such a sum or product of the other, too, it must come before it in the given graph.

    Args:
        whole, operand: Their variables.
    """
    places = f"(= f_{whole} (first {whole})) (= f_{operand} (first {operand}))"
    return f"(= k_{whole} (linked {whole} {operand})) {places} (<= (* k_{whole} (+ 1 f_{operand})) f_{whole})"


class Bases:
    """Finds the bases in an e-graph, once a rule asks for them."""

    def __init__(self, egraph: EGraph):
        self.egraph = egraph
        self._seen = 0  # symbols

    def find(self) -> bool:
        """Find new bases, and what comes of them; whether any rule asks for them."""
        if not self.egraph.has_bases:
            return False
        if not self._seen:
            self._stays = self.egraph.predicate(Test("constant", "a scalar that is not moderate", _stays))
            self._is_wide = self.egraph.predicate(Test("type", "more elements than one", _has_more_elements))
            self._declare()
            self.egraph.flush()
        self._cover()
        self.egraph.engine.saturate("sums")
        self.egraph.engine.saturate("bases")
        self.follow()
        return True

    def follow(self) -> None:
        """Find the origins of new sums and products with constants, and bases that are neither sums nor products.

        Sums and products of what varies are bases later on: they may turn out to be sums and products with constants.
        """
        self._cover()
        self.egraph.engine.saturate("sums")
        self.egraph.engine.saturate("origins")
        self.egraph.engine.saturate("settled")

    def settle(self) -> bool:
        """Say that no scalar leaves bases that come after all others, where none has; whether that is new."""
        return self._seen > 0 and self.egraph.engine.saturate("remaining")

    def _cover(self) -> None:
        """See to new symbols."""
        symbols = self.egraph.vocabulary.symbols
        for index in range(self._seen, len(symbols)):
            kind, op, arity = symbols[index]
            children = [f"c{i}" for i in range(arity)]
            node = f"(= e (n{index} a {' '.join(children)}))"
            if kind == "call" and op is not None and op.name in AFFINE:
                self._affine(op.name, node, children)
            elif kind == "call" and op is not None and op.name in RAMPS:
                self.egraph.engine.rule("bases", f"{node} (varies e)", _AFTER_OTHERS + put("(unshifted e)"))
                self.egraph.engine.rule("bases", f"{node} (varies e) (unscaled c0)", _BASE)
            elif kind == "call" and op is not None and op.name in (*POOLS, *EXTREMES):
                self.egraph.engine.rule("bases", f"{node} (varies e)", _AFTER_OTHERS)
                self.egraph.engine.rule("bases", f"{node} (varies e) (still c0) (unshifted c0)", _BASE)
            elif kind != "constant":
                self.egraph.engine.rule("origins", f"{node} (varies e)", _BASE)
            if kind == "call" and op is not None and arity:
                self._weighted(op, node, children)
        self._seen = len(symbols)

    def _declare(self) -> None:
        engine = self.egraph.engine
        engine.relation("unscaled", "Expr")
        engine.relation("unshifted", "Expr")
        engine.declare("(ruleset sums)")
        engine.declare("(ruleset bases)")
        engine.declare("(ruleset origins)")
        engine.declare("(ruleset remaining)")
        engine.rule("origins", "(varies e)", put("(plain e)"))
        engine.rule("origins", "(plain e) (weighted e)", "(delete (plain e))")
        engine.rule("origins", "(varies e)", put("(bare e)"))
        engine.declare("(function readers (Expr) i64 :merge (max old new))")
        engine.rule("origins", "(varies e)", "(set (readers e) 1)")
        if self.egraph.has_uses:
            engine.rule("origins", "(varies e) (= n (uses e))", "(set (readers e) n)")
        engine.rule("origins", "(= 1 (readers e))", put("(own e)"))
        engine.rule("origins", "(own e) (= n (readers e)) (> n 1)", "(delete (own e))")
        engine.rule("origins", "(bare e) (absorbing e) (own e)", "(delete (bare e))")
        engine.relation("still", "Expr")
        engine.rule("origins", "(unscaled e)", put("(still e)"))
        engine.rule("bases", "(unscaled e)", put("(still e)"))
        engine.relation("shifted", "Expr")
        self._declare_affine()
        base, stays = "(= l (level e)) (= o (origin e)) (>= o l)", f"{put('(factor e)')} {put('(term e)')}"
        engine.rule("settled", f"{base} (<= l {_LAST})", stays)
        engine.rule("remaining", base, stays)
        engine.rule("origins", f"(= l (level e)) (<= l {_LAST}) (= e (N h))", "(set (level e) h)")
        engine.rule("origins", f"(= l (level e)) (> l {_LAST}) (= e (N h))", f"(set (level e) (+ h {_AFTER_ALL}))")
        engine.rule("origins", "(= l (level e))", "(set (origin e) l)")
        engine.rule("origins", "(varies e)", f"(set (first e) {_NOWHERE})")
        is_given = f"(= e (N h)) (< h {self.egraph.given_count})"
        engine.rule("origins", f"(varies e) {is_given}", f"(set (first e) h) {put('(given e)')}")
        engine.rule("origins", f"(isc e) {is_given}", put("(given e)"))

    def _declare_affine(self) -> None:
        """Declare what is said of sums and products with constants, whatever the operator and the order of operands."""
        engine = self.egraph.engine
        engine.relation("apart", "Expr")
        for relation in ("multiple", "sum_of"):
            engine.relation(relation, "Expr", "Expr")
            form = f"({relation} e x)"
            engine.rule("origins", f"{form} (= l (origin x))", "(set (origin e) l)")
            engine.rule("origins", form, "(set (linked e x) 0)")
            engine.rule("origins", f"{form} ({relation} x e)", "(set (linked e x) 1)")
            # x + c is no multiple if x is none, x * c no sum with a constant if x is none
            other = "unscaled" if relation == "sum_of" else "unshifted"
            engine.rule("origins", f"{form} ({other} x)", put(f"({other} e)"))
            for kept in ("weighted", "absorbing"):
                engine.rule("origins", f"{form} ({kept} x) (own x)", put(f"({kept} e)"))
        for relation in ("broad", "stuck"):
            engine.relation(relation, "Expr")
        engine.rule("origins", f"(isc e) (= t (ty e)) ({self._is_wide} t)", put("(broad e)"))
        engine.rule("origins", f"(= v (val e)) ({self._stays} v)", put("(stuck e)"))
        engine.rule("settled", "(sum_of e x)", f"{put('(shifted e)')} {put('(factor e)')}")
        engine.rule("settled", "(multiple e x) (shifted x)", put("(factor e)"))
        engine.rule("settled", "(multiple e x) (= l (level x)) (= o (origin x)) (>= o l)", put("(term e)"))

    def _weighted(self, op: Op, node: str, children: Sequence[str]) -> None:
        """Tell what has a weight that takes in scales."""
        rule, others = self.egraph.engine.rule, "".join(f" (isc {each})" for each in children[1:])
        if op.name in WEIGHING:
            told = f"{put('(weighted e)')} {put('(absorbing e)')}"
            rule("origins", f"{node} (varies {children[0]}){others}", told)
        elif op.name == "nn.bias_add":
            for relation in ("weighted", "absorbing"):
                rule(
                    "origins", f"{node} ({relation} {children[0]}) (own {children[0]}){others}", put(f"({relation} e)")
                )
        elif op.name in (*_PASSED, *POOLS) or op.has(Trait.MOVES):
            rule("origins", f"{node} (weighted {children[0]}) (own {children[0]}){others}", put("(weighted e)"))

    def _affine(self, name: str, node: str, children: Sequence[str]) -> None:
        rule = self.egraph.engine.rule
        is_sum = name in _SUMS
        for child in linear(name, children):
            others = [each for each in children if each != child]
            constants = "".join(f" (isc {each})" for each in others)
            ruleset, relation = ("origins", "sum_of") if is_sum else ("sums", "multiple")
            rule(ruleset, f"{node}{constants}", put(f"({relation} e {child})"))
            for each in others:
                rule("settled", f"{node} (broad {each})", put("(term e)" if is_sum else "(factor e)"))
                if not is_sum:
                    rule("origins", f"{node} (stuck {each}) (unscaled {child})", put("(still e)"))
                    rule("settled", f"{node} (stuck {each})", put("(factor e)"))
        if len(children) > 1:
            both = node + "".join(f" (varies {child})" for child in children)
            same, other = ("unshifted", "unscaled") if is_sum else ("unscaled", "unshifted")
            stay = "unshifted" if is_sum else "still"
            clean = both + "".join(f" ({stay} {child})" for child in linear(name, children))
            if is_sum:
                rule("bases", both, _AFTER_OTHERS)
                rule("bases", clean, put("(unshifted e)"))
                rule("sums", both, put("(apart e)"))
                for alike in ("(multiple c0 x) (multiple c1 x)", "(multiple c0 c1)", "(multiple c1 c0)", "(= c0 c1)"):
                    rule("sums", f"(apart e) {node} {alike}", "(delete (apart e))")
                both, clean = f"{both} (apart e)", f"{clean} (apart e)"
            rule("bases", both, _AFTER_OTHERS + put(f"({other} e)"))
            rule("bases", clean, f"(set (level e) {_LAST}) {put(f'({same} e)')}")
        if name == "divide":
            rule("bases", f"{node} (isc c0) (varies c1)", _BASE)
