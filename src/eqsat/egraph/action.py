"""What an engine rule does with a match: the right side of a rewrite as actions, and what Python is asked for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np

from eqsat.egraph.engine import put
from eqsat.egraph.journal import Made
from eqsat.egraph.query import MatchedNode, Query
from eqsat.egraph.rule import Compute, Guard, Ref, Refusal, Rewrite, Successive
from eqsat.egraph.symbols import Symbol, is_foldable
from eqsat.egraph.templates import TemplateBuilder
from eqsat.egraph.vocabulary import UNKNOWN, Vocabulary
from eqsat.errors import EqsatError, RuleError
from eqsat.relay.dataflow_pattern import DFPattern
from eqsat.relay.expr import Constant, Op
from eqsat.relay.op.op import make_attrs

T = TypeVar("T")

Refuse = Callable[[str, str], None]
"""Told of each refusal: rule name and reason."""

Fail = Callable[[str, RuleError], None]
"""Told of each failure of a rule's Python part: rule name and error. It raises the error, or the run goes on."""


Fold = Callable[..., Sequence[int] | None]
"""The atom of the value of an e-node over constants, from its symbol, its atom and theirs; None where there is none."""


class _Unfolded(Exception):
    """What a rule makes of constants has no value."""


@dataclass
class Action:
    """The right side of a rule for one query: engine actions, and what must be asked first.

    Calls of constants are folded when the question is answered, with ``fold``: of each the engine would else make an
    e-node, ask for its value and delete it. Where a constant has no value, or the call, ``otherwise`` acts.
    """

    vocabulary: Vocabulary
    rule: Rewrite
    query: Query
    refuse: Refuse
    fail: Fail
    premises: list[str] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)
    guards: list[Callable[[dict[str, int]], bool]] = field(default_factory=list)
    sites: dict[str, Callable[[dict[str, int]], int]] = field(default_factory=dict)
    made: list[Made] = field(default_factory=list)
    untyped: dict[str, Made] = field(default_factory=dict)
    """Of what is made, by its variable, that whose type is not known from what it equals."""
    pairs: list[tuple[str, str]] = field(default_factory=list)
    fold: Fold | None = None
    otherwise: Action | None = None
    _atoms: dict[str, str] = field(default_factory=dict)
    """The variable of a constant that is made -> its atom: a number, or a site."""
    _variables: int = 0

    @property
    def folds(self) -> bool:
        """Whether it folds a call."""
        return any(isinstance(site, _Folded) for site in self.sites.values())

    @property
    def asks(self) -> bool:
        return bool(self.rule.when or self.sites)

    def answer(self, *ids: int) -> Sequence[int] | None:
        """The atoms that a match computes, None where the rule refuses it or fails; ``ids`` are those of ``keys``."""
        values = dict(zip(self.keys, ids, strict=True))
        try:
            if not all(holds(values) for holds in self.guards):
                raise RuleError("guard")
            return self.atoms(values)
        except EqsatError as error:
            self.refuse(self.rule.name, str(error))
        except Exception as error:
            given = ", ".join(str(self.meaning(name, values)) for name in self.keys)
            failure = RuleError(f"rule {self.rule.name}: its Python part failed on {given}: {error!r}")
            failure.__cause__ = error
            self.fail(self.rule.name, failure)
        return None

    def atoms(self, values: Mapping[str, int]) -> Sequence[int]:
        """The atoms that a match computes; ``values`` are the ids of keys."""
        known = dict(values)
        try:
            for name, make in self.sites.items():
                known[name] = make(known)
        except _Unfolded:
            if self.otherwise is None:
                raise
            return self.otherwise.atoms(values)
        return [known[name] for name in self.sites]

    def _holds(self, guard: Guard, values: dict[str, int]) -> bool:
        return bool(self.ask(guard.holds, guard.refs, values))

    def ask(self, function: Callable[..., Any], refs: Sequence[Ref], values: dict[str, int]) -> Any:
        """What a Python part of the rule says of a match; a refusal is raised."""
        found = function(*(self.value(ref, values) for ref in refs))
        if isinstance(found, Refusal):
            raise RuleError(found.reason)
        return found

    def build(self) -> None:
        for guard in self.rule.when:
            keys = [self.key(ref) for ref in guard.refs]
            if isinstance(guard, Successive):
                self.premises += guard.premises(keys)
            self.guards.append(_once(partial(self._holds, guard), keys))
        builder = TemplateBuilder(self.rule.name, self)
        results = [builder.build(template) for template in self.rule.rhs]
        roots = [self.query.classes[root] for root in self.rule.lhs]
        if len(results) < len(roots):
            (whole,) = results
            results = [self.field_of(whole, index) for index in range(len(roots))]
        for root, result in zip(roots, map(self.there, results), strict=True):
            self.equate(root, result)
        for made in self.untyped.values():
            columns = " ".join([str(made.symbol), made.atom, *made.children, made.variable])
            self.actions.append(put(f"(made_{len(made.children)} {columns})"))

    def equate(self, root: str, result: str) -> None:
        """Union; a matched class needs proof that it has the root's very type, a new node is typed later."""
        if result in self.query.classes.values():
            self.premises += of_one_type(root, result)
        self.untyped.pop(result, None)  # it has its root's type
        self.actions.append(f"(union {root} {result})")
        self.pairs.append((root, result))

    # ---- what right sides are made of, see :class:`eqsat.egraph.templates.Backend`; nodes are variables of classes

    def matched(self, pattern: DFPattern) -> str | None:
        return self.query.classes.get(pattern)

    def constant(self, value: Constant) -> str:
        return self._constant(str(self.vocabulary.constant(value)))

    def computed(self, template: Compute) -> str:
        def compute(values: dict[str, int]) -> int:
            array = np.asarray(self.ask(template.function, template.refs, values))
            return self.vocabulary.constant(Constant(array))

        return self._constant(self.site(compute, template.refs))

    def call(self, op: Op, args: Sequence[str], attrs: Mapping[str, Any]) -> str:
        atom, symbol = self.attributes(op, attrs), Symbol("call", op, len(args))
        if self.fold is None or not is_foldable(symbol) or not all(map(self._is_constant, args)):
            return self.make("call", op, atom, args)
        constants = [self._atom_of(each) for each in args]
        return self._constant(self._site(_Folded(self.fold, self.vocabulary.symbol(symbol), [atom, *constants])))

    def _is_constant(self, variable: str) -> bool:
        return variable in self._atoms or f"val_{variable}" in self.keys or f"(isc {variable})" in self.query.premises

    def _atom_of(self, constant: str) -> str:
        """What holds the atom of a constant: a number, a site, or a key, which is ``UNKNOWN`` where there is none."""
        found = self._atoms.get(constant, f"val_{constant}")
        return self._fact("known", constant) if constant not in self._atoms and found not in self.keys else found

    def like(self, pattern: DFPattern, operands: Sequence[str], changes: Mapping[str, Any]) -> str:
        node = self.node(pattern)
        kind, op, _ = self.vocabulary.symbols[node.symbol]
        if kind == "project":
            return self.make(kind, None, node.atom, operands)
        if op is None:
            raise RuleError(f"rule {self.rule.name}: like() needs a matched call or field of a tuple")
        if not changes:
            return self.make("call", op, node.atom, operands)
        return self.make("call", op, self.attributes(op, changes, [Ref("attrs", pattern)]), operands)

    def tuple_of(self, fields: Sequence[str]) -> str:
        return self.make("tuple", None, str(self.vocabulary.tuple_atom), fields)

    def field_of(self, whole: str, index: int) -> str:
        return self.make("project", None, str(self.vocabulary.atom("project", ("project", index), index)), [whole])

    # ---- what Python computes

    def attributes(self, op: Op, given: Mapping[str, Any], old: Sequence[Ref] = ()) -> str:
        """The atom of a new call's attributes, ``given`` ones and ``old`` ones: known now, or computed per match."""
        computed = {name: value for name, value in given.items() if isinstance(value, Compute)}
        if not computed and not old:
            return str(self.vocabulary.attributes(make_attrs(op, dict(given))))

        def compute(values: dict[str, int]) -> int:
            attrs = dict(given)
            for name, template in computed.items():
                attrs[name] = self.ask(template.function, template.refs, values)
            for ref in old:
                attrs = {**(self.value(ref, values) or {}), **attrs}
            return self.vocabulary.attributes(make_attrs(op, attrs))

        return self.site(compute, [*old, *(ref for template in computed.values() for ref in template.refs)])

    def site(self, compute: Callable[[dict[str, int]], int], refs: Sequence[Ref]) -> str:
        return self._site(_once(compute, [self.key(ref) for ref in refs]))

    def _site(self, compute: Callable[[dict[str, int]], int]) -> str:
        variable = f"s{len(self.sites)}"
        self.sites[variable] = compute
        return variable

    def make(self, kind: str, op: Op | None, atom: str, children: Sequence[str]) -> str:
        for child in children:
            self.there(child)
        return self._made(self._variable(), kind, op, atom, children)

    def _variable(self) -> str:
        self._variables += 1
        return f"r{self._variables - 1}"

    def _made(self, variable: str, kind: str, op: Op | None, atom: str, children: Sequence[str]) -> str:
        index = self.vocabulary.symbol(Symbol(kind, op, len(children)))
        self.actions.append(f"(let {variable} (n{index} {' '.join((atom, *children))}))")
        self.made.append(Made(variable, index, atom, tuple(children)))
        self.untyped[variable] = self.made[-1]
        return variable

    def _constant(self, atom: str) -> str:
        """The variable of a constant, which is made once something needs it: what is folded does not."""
        variable = self._variable()
        self._atoms[variable] = atom
        return variable

    def there(self, variable: str) -> str:
        """See to it that a variable's e-node is made."""
        if variable in self._atoms and all(each.variable != variable for each in self.made):
            atom = self._atoms[variable]
            self._made(variable, "constant", None, atom, [])
            self.actions += [f"(set (val {variable}) {atom})", put(f"(isc {variable})")]
        return variable

    def node(self, pattern: DFPattern) -> MatchedNode:
        """The e-node that a pattern matched."""
        node = self.query.nodes.get(pattern)
        if node is None:
            raise RuleError(f"rule {self.rule.name}: it asks for the attributes of a pattern that matched no call")
        return node

    def key(self, ref: Ref) -> str:
        """The variable that holds the id of what ``ref`` refers to."""
        if ref.pattern not in self.query.classes:
            raise RuleError(f"rule {self.rule.name}: it refers to a pattern that the left side does not match")
        variable = self.query.classes[ref.pattern]
        if ref.kind in ("attrs", "index"):
            name = self.node(ref.pattern).atom
        else:
            return self._fact(ref.kind, variable)
        self.keys[name] = ref.kind
        return name

    def _fact(self, kind: str, variable: str) -> str:
        """The variable that holds a fact about a class."""
        table = {"type": "ty", "value": "val"}.get(kind, kind)
        name = f"{table}_{variable}"
        if name not in self.keys:
            self.premises.append(f"(= {name} ({table} {variable}))")
        self.keys[name] = kind
        return name

    def value(self, ref: Ref, values: dict[str, int]) -> Any:
        return self.meaning(self.key(ref), values)

    def meaning(self, key: str, values: dict[str, int]) -> Any:
        """The type, attributes, array or number that the variable ``key`` stands for."""
        kind = self.keys[key]
        if kind in ("uses", "place", "known"):
            return values[key]
        if kind == "type":
            return self.vocabulary.types[values[key]]
        value = self.vocabulary.atoms[values[key]].value
        return value.data.numpy() if kind == "value" else value

    def used(self, variables: Sequence[str]) -> list[str]:
        """Those of ``variables`` that the actions mention, in order."""
        mentioned = set(re.findall(r"[^\s()]+", " ".join(self.actions)))
        return [variable for variable in variables if variable in mentioned]


@dataclass
class _Folded:
    """Computes the atom of the value of a call of constants.

    Args:
        fold: finds it.
        symbol: of the call.
        names: of its atom and those of its arguments: keys, sites and numbers.
    """

    fold: Fold
    symbol: int
    names: Sequence[str]

    def __call__(self, values: Mapping[str, int]) -> int:
        ids = [int(name) if name.isdigit() else values[name] for name in self.names]
        found = None if UNKNOWN in ids else self.fold(self.symbol, *ids)
        if found is None:
            raise _Unfolded
        (atom,) = found
        return atom


def _once(function: Callable[[dict[str, int]], T], keys: Sequence[str]) -> Callable[[dict[str, int]], T]:
    """``function``, called once for each combination of the ids of ``keys``: matches share types and attributes."""
    known: dict[tuple[int, ...], T] = {}

    def found(values: dict[str, int]) -> T:
        ids = tuple([values[key] for key in keys])
        if ids not in known:
            known[ids] = function(values)
        return known[ids]

    return found


def of_one_type(one: str, other: str) -> list[str]:
    """Premises that two classes, given by their variables, have the same type, and so the same shape."""
    return [
        f"(= ty_{one} (ty {one}))",
        f"(= ty_{other} (ty {other}))",
        f"(<= ty_{one} ty_{other})",  # they are compared: a join would be of all classes of one type with each other
        f"(>= ty_{one} ty_{other})",
        f"(>= ty_{one} 0)",  # an exact type
    ]
