"""AnnotateSpans: nodes get the places of the text form as spans."""

from __future__ import annotations

from eqsat.relay.module import IRModule
from eqsat.relay.parser import parse
from eqsat.relay.transform.base import Pass, PassContext, PassInfo

SOURCE_NAME = "GeneratedSource"


def AnnotateSpans() -> Pass:
    """Print a module and read it back, so that the span of every node says where in the text it is."""

    def transform(mod: IRModule, context: PassContext) -> IRModule:
        annotated = parse(mod.astext(), SOURCE_NAME)
        return annotated.with_attrs(mod.attrs) if mod.attrs else annotated

    return Pass(transform, PassInfo(0, "AnnotateSpans"))
