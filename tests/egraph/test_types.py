"""Types of classes: of several, the one that tells most."""

from __future__ import annotations

import itertools

from eqsat.egraph.vocabulary import Vocabulary
from eqsat.relay.ty import Any, TensorType, Type


def test_sizes_of_the_given_graph_tell_more_than_those_that_inference_named() -> None:
    types: list[Type] = [TensorType((Any("batch"), size)) for size in (Any(), Any("#7"), Any("seq"))]
    for order in itertools.permutations(types):
        vocabulary = Vocabulary()
        for ty in order:
            vocabulary.type_id(ty)
        assert sorted(types, key=vocabulary.type_id) == types
        assert [vocabulary.types[vocabulary.type_id(ty)] for ty in types] == types
