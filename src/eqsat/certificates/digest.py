"""Digests of graphs, which identify the graphs of a certificate.

No proof depends on them, because the given graphs themselves are checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from eqsat.certificates.terms import Terms, told_of
from eqsat.relay.expr import Expr, Function
from eqsat.relay.visitor import children_first


def graph_digest(terms: Terms, function: Function, numbers: Mapping[Expr, int]) -> str:
    """Return a digest that is equal for functions with the same operators, whatever the names of their nodes.

    Args:
        terms: The terms of the function's body.
        function: The function.
        numbers: The number of each node.
    """
    digests: dict[int, bytes] = {}
    for term in children_first([numbers[function.body]], terms.children.__getitem__):
        head = terms.heads[term]
        name = "" if head.op is None else head.op.name
        key = told_of(head.value.data) if head.kind == "constant" else head.key
        state = hashlib.blake2b(repr((head.kind, name, key)).encode(), digest_size=16)
        for child in terms.children[term]:
            state.update(digests[child])
        digests[term] = state.digest()
    params = [(param.name_hint, str(param.type_annotation)) for param in function.params]
    return hashlib.blake2b(repr(params).encode() + digests[numbers[function.body]], digest_size=16).hexdigest()
