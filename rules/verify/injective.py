"""Whether injective operators are: of arguments that differ, they make results that differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from eqsat.egraph.rule import PythonRule
from eqsat.relay.dataflow_pattern import wildcard
from eqsat.relay.expr import Call, Constant, Expr
from eqsat.relay.infer import infer_type
from eqsat.relay.interpreter import evaluate
from eqsat.relay.op import all as all_of
from eqsat.relay.op import equal
from eqsat.relay.op.draw import Draw
from eqsat.relay.traits import Trait
from eqsat.relay.ty import TensorType
from eqsat.rules.operators import names_with, one_of
from eqsat.rules.verify.instances import Instance, draw_instances


def comparisons(make: Callable[[], Draw], attempts: int) -> Iterator[tuple[Instance, Expr]]:
    """Whether calls of an injective operator are equal, as an instance, and whether their arguments are.

    Of the arguments, one is a copy of the other or differs from it in one element.
    """
    any_call = PythonRule("injectivity", one_of(*names_with(Trait.INJECTIVE, 1))(wildcard()), lambda root, found: root)
    for instance in draw_instances(any_call, make, attempts):
        (call,) = instance.roots
        value = np.array(evaluate(call.args[0], instance.values)) if isinstance(call, Call) else np.zeros(0)
        if not isinstance(call, Call) or not isinstance(call.args[0].checked_type, TensorType) or not value.size:
            continue
        draw = make()
        if draw.chance(0.5):
            place = draw.rng.randrange(value.size)
            value.flat[place] = draw.array(TensorType((), value.dtype.name))
        argument = Constant(value)
        results = all_of(equal(call, Call(call.op, [argument], call.attrs)))
        yield Instance((infer_type(results),), instance.values), infer_type(all_of(equal(call.args[0], argument)))
