"""The backend of ``torch.compile(model, backend="eqsat")``."""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import fx

from eqsat.errors import ArgumentError, EqsatError
from eqsat.pipeline.options import Options
from eqsat.torch.graphs import Rewritten, call_count, rewrite
from eqsat.torch.rows import Dialect

_log = logging.getLogger(__name__)

THEN = ("inductor", "eager")
"""What may run the optimized graph."""

_SHORT = {"cost": "cost_model"}
"""Options that have another name here."""


def backend(module: fx.GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None) -> Any:
    """Compile a graph of ``torch.compile``: optimize it by rules, then run it by Inductor or as it is.

    Graphs of training pass through untouched, and so do those that cannot be optimized; a warning says so once.

    Args:
        module: The graph, of operators of PyTorch.
        inputs: What it takes.
        options: ``rules``, ``cost`` and the other fields of :class:`eqsat.Options`; ``then`` is ``"inductor"``, which
            is the default, or ``"eager"``.

    Raises:
        ArgumentError: An option is not known, or has a wrong value.
    """
    given = dict(options or {})
    then = given.pop("then", THEN[0])
    known = [*_SHORT, *[each.name for each in fields(Options) if each.name != "opset"]]
    unknown = [name for name in given if name not in known]
    if unknown:
        raise ArgumentError(f"there is no option {unknown[0]!r}: options are {', '.join(sorted([*known, 'then']))}")
    if then not in THEN:
        raise ArgumentError(f"then is {' or '.join(map(repr, THEN))}, not {then!r}")
    asked = Options.of({_SHORT.get(name, name): value for name, value in given.items()})
    return _by_inductor(module, inputs, asked) if then == "inductor" else _in_eager_mode(module, inputs, asked)


def _in_eager_mode(module: fx.GraphModule, inputs: Sequence[Any], options: Options) -> Any:
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    def inference(graph: fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        found = optimized(graph, options, Dialect(composite=True))
        return make_boxed_func((graph if found is None else found.after).forward)  # type: ignore[no-any-return]

    def training(graph: fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        _tell(_TRAINING)
        return make_boxed_func(graph.forward)  # type: ignore[no-any-return]

    return aot_autograd(fw_compiler=training, bw_compiler=training, inference_compiler=inference)(module, inputs)


def _by_inductor(module: fx.GraphModule, inputs: Sequence[Any], options: Options) -> Any:
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner
    from torch._inductor.decomposition import decompositions
    from torch._inductor.lowering import lowerings

    # it has no code for most of what it decomposes, which it does before
    dialect = Dialect(composite=False, without=frozenset(set(decompositions).difference(lowerings)))

    def inner(graph: fx.GraphModule, examples: Sequence[Any], **more: Any) -> Any:
        if more.get("is_inference"):
            found = optimized(graph, options, dialect)
            graph = graph if found is None else found.after
        else:
            _tell(_TRAINING)
        return compile_fx_inner(graph, examples, **more)

    with torch._functorch.config.patch(enable_autograd_cache=False):  # its keys know nothing of rules
        return compile_fx(module, inputs, inner_compile=inner)


_TRAINING = "eqsat leaves graphs of training as they are; compile and call the model under torch.no_grad()"


def optimized(module: fx.GraphModule, options: Options, dialect: Dialect | None = None) -> Rewritten | None:
    """The optimized graph, or None where that is not possible, with a warning that says why."""
    try:
        found = rewrite(module, options, dialect)
    except EqsatError as error:
        _tell(f"eqsat leaves a graph as it is: {error}")
        return None
    calls = call_count(module.graph), call_count(found.after.graph)
    _log.info(
        "made %d calls of %d in %.2f s; not understood: %s", calls[1], calls[0], found.seconds["all"], found.opaque
    )
    return found


@functools.cache
def _tell(text: str) -> None:
    """Warn once."""
    warnings.warn(text, stacklevel=2)
