"""The fastest of a few candidates, run whole against the model that was given.

Candidates are what several cost models choose of one e-graph, and what is next best by measured kernels: the best graph
is chosen anew without one of its kernels, for each of them, so every candidate differs from it by a kernel at least.
They run in turn; those that were faster without one kernel or another are tried without all of these in a second run,
in which the best of the first run again.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eqsat.calibration.lowered import predicted_as_run
from eqsat.calibration.measuring import Setup
from eqsat.calibration.model import Calibrated, Known
from eqsat.calibration.prediction import predicted
from eqsat.calibration.race import LIMIT, Race, Run, race
from eqsat.collector import paused_gc
from eqsat.cost import CostFunction, CostModel, CostNode, OpCount, Roofline
from eqsat.cost.runtimes import NO_RUNTIME
from eqsat.egraph.runner import OnIteration
from eqsat.errors import EqsatError
from eqsat.onnx.feeds import runnable_feed, types_told
from eqsat.onnx.files import Given, load
from eqsat.onnx.graphs import node_count
from eqsat.onnx.optimize import Forms, Optimization, forms, run
from eqsat.onnx.sizes import open_dims
from eqsat.pipeline.options import Options
from eqsat.relay.structural import structural_equal

_log = logging.getLogger(__name__)

SECONDS = 10.0
"""For how long candidates run, by default."""

_NEAR = 1.25
"""How much more a candidate may be predicted to take than the best."""

_MOST = 6
"""Most candidates that are next best."""

_FINALISTS = 3
"""How many run a second time."""

_SEARCH = 20.0
"""Seconds for which candidates are looked for that are next best."""

_EACH = 2.0
"""Seconds that one of them may take to be chosen."""


@dataclass(frozen=True)
class Candidate:
    """A model that ran.

    Attributes:
        name: What chose it.
        nodes: How many nodes it has.
        predicted: Seconds that its kernels take together; what only constants go into is taken to be computed before.
        measured: Seconds that it takes, the median of its runs; None where it did not run.
        ratio: What it takes over what the given model takes, the median of runs in the same turns.
        problem: Why it did not run.
    """

    name: str
    nodes: int
    predicted: float
    measured: float | None
    ratio: float | None
    problem: str = ""


@dataclass
class Fastest:
    """What was chosen of a few candidates.

    Attributes:
        done: The optimization that gives it.
        candidates: Those that ran, the model that was given first.
        chosen: The number of the chosen one among them.
        noise: By how much times differed for no reason, as a share.
        inputs: What they ran on, as text.
        setup: How the runtime ran.
        known: How much is known of the kernels.
        tried: How many graphs were chosen, of which those that are predicted to be fast ran.
    """

    done: Optimization
    candidates: list[Candidate]
    chosen: int
    noise: float
    inputs: dict[str, str]
    setup: Setup
    known: Known
    tried: int

    def __str__(self) -> str:
        name = self.candidates[self.chosen].name
        if self.noise > LIMIT:
            return (
                f"times differ by {self.noise:.1%} for no reason, more than {LIMIT:.0%}: not chosen by them, but {name}"
            )
        return f"the fastest of {len(self.candidates)}: {name}; noise {self.noise:.1%}"


@dataclass(frozen=True, eq=False)
class _Form:
    """A candidate before it runs.

    Attributes:
        name: What chose it.
        done: The optimization that gives it.
        kernels: Seconds of each of its kernels, by key.
        predicted: Seconds that its kernels take together.
        without: The kernels that it was to do without.
    """

    name: str
    done: Optimization
    kernels: Mapping[str, float]
    predicted: float
    without: frozenset[str] = frozenset()


def fastest(
    model: Given,
    *,
    setup: Setup | None = None,
    dims: Mapping[str, int] | None = None,
    inputs: Sequence[Mapping[str, np.ndarray[Any, Any]]] = (),
    seconds: float = SECONDS,
    on_iteration: OnIteration | None = None,
    options: Options | None = None,
) -> Fastest:
    """Optimize a model, run the best few candidates, and return the fastest, but none slower than what was given.

    Args:
        model: A model in any form that :func:`eqsat.onnx.load` takes; it is not changed.
        setup: How the runtime runs; by default its own number of threads, with its optimizer off for the runtime
            ``none`` and at its highest level otherwise.
        dims, inputs: What the models run on, as for :func:`eqsat.onnx.bench`.
        seconds: For how long they run in turn.
        on_iteration: Called with the report after every iteration of a saturation.
        options: How to optimize. What the cost model chooses is a candidate.

    Raises:
        ArgumentError: ``dims`` does not fit the model.
        ModelError: The runtime is missing, or the model cannot be read or does not run in it.
        EqsatError: As for :func:`eqsat.onnx.optimize`.
        KeyboardInterrupt: The saturation was interrupted.
    """
    options = options or Options()
    setup = setup or Setup.of(options.runtime)
    given = load(model)
    feed = dict(inputs[0]) if inputs else runnable_feed(given, dims=dims)
    with paused_gc(), forms(given, on_iteration, options) as found:
        search = _Search(found, _priced(options.cost_model, setup).with_sizes(sizes_of(given, feed)), options.contrib)
        # with rules that do nothing the model is what was given, as it is written here
        plain = run(given, options=replace(options, rules=[], contrib=False))
        pool = [search.form("the model as it was", replace(plain, after=given)), *search.by_models(options)]
        best = min(pool[1:], key=lambda each: each.predicted)
        place = pool.index(best)
        pool = search.as_they_run([*pool, *search.next_best(best, pool[1:])], feed)
        first = _raced(pool, feed, setup, seconds / 2, search.priced, repeats=False)  # only the second run decides
        final = _finalists(pool, first)
        joined = search.without_all(pool[place], pool, first)
        final += [] if joined is None or _is_known(joined.done, pool[1:]) else search.as_they_run([joined], feed)
        second = _raced(final, feed, setup, seconds / 2, search.priced)
    chosen = _choice(second, [form.predicted for form in final])
    shown = [*zip(final, second.runs, strict=True)]
    shown += [(form, ran) for form, ran in zip(pool, first.runs, strict=True) if form not in final]
    told = [
        Candidate(
            form.name,
            node_count(form.done.after),
            form.predicted,
            ran.seconds if isinstance(ran, Run) else None,
            ran.ratio if isinstance(ran, Run) else None,
            ran if isinstance(ran, str) else "",
        )
        for form, ran in shown
    ]
    return Fastest(
        final[chosen].done, told, chosen, second.noise, types_told(feed), setup, search.priced.known, search.tried
    )


def sizes_of(model: Any, feed: Mapping[str, Any]) -> dict[str, int]:
    """Return the sizes of open dimensions in what a model is fed, by name."""
    fed = [(value, np.shape(feed[value.name])) for value in model.graph.inputs if value.name in feed]
    return {name: shape[axis] for value, shape in fed for name, axis in open_dims(value) if axis < len(shape)}


def _priced(cost: CostFunction, setup: Setup) -> Calibrated:
    """The model that was asked for if it knows how long kernels take in this way, and else one that measures them."""
    return cost if isinstance(cost, Calibrated) and cost.profile.setup == setup else Calibrated.here(setup)


def _raced(
    pool: Sequence[_Form],
    feed: Mapping[str, Any],
    setup: Setup,
    seconds: float,
    priced: Calibrated,
    repeats: bool = True,
) -> Race:
    return race([form.done.after for form in pool], feed, setup, seconds, priced.profile.reference, repeats)


def _finalists(pool: Sequence[_Form], first: Race) -> list[_Form]:
    """The given model, what was asked for, what is predicted to be fastest, and the fastest."""
    ratios = {place: ran.ratio for place, ran in enumerate(first.runs) if place > 1 and isinstance(ran, Run)}
    fast = sorted(ratios, key=ratios.__getitem__)[:_FINALISTS]
    likely = min(ratios, key=lambda place: pool[place].predicted, default=1)
    return [pool[place] for place in dict.fromkeys([0, 1, likely, *fast])]


def _choice(second: Race, predicted: Sequence[float]) -> int:
    """The fastest; where there is too much noise the one predicted to be, unless even so it is seen to be slower.

    What was given runs first.
    """
    ratios = [ran.ratio if isinstance(ran, Run) else math.inf for ran in second.runs]
    times = [math.inf if math.isinf(each) else time for each, time in zip(ratios, predicted, strict=True)]
    place = min(range(1, len(ratios)), key=(times if second.is_noisy else ratios).__getitem__)
    return place if ratios[place] <= 1.0 + second.noise else 0


def _is_known(done: Optimization, forms: Sequence[_Form]) -> bool:
    expr = done.extraction.expr
    return any(structural_equal(expr, each.done.extraction.expr) for each in forms)


class _Search:
    """Chooses candidates.

    Args:
        forms: What they are chosen from.
        priced: What kernels take.
        contrib: Whether the runtime's own operators may be written.
    """

    def __init__(self, forms: Forms, priced: Calibrated, contrib: bool):
        self.forms = forms
        self.priced = priced
        self.tried = 0
        self.runtime = priced.profile.setup.runtime if contrib else priced.profile.setup.kernels

    def form(self, name: str, done: Optimization, without: frozenset[str] = frozenset()) -> _Form:
        """Return a candidate with the seconds that it takes by its kernels."""
        asked = _Asked(self.priced)
        seconds = predicted(done.after, asked, self.runtime, self.priced.sizes)
        return _Form(name, done, asked.kernels, seconds, without)

    def as_they_run(self, found: list[_Form], feed: Mapping[str, Any]) -> list[_Form]:
        """Return candidates with the seconds that they take by what the runtime's optimizer makes of them, if it does.

        Each is searched by the kernels that it is written with, which is fast.
        """
        seconds = predicted_as_run([form.done.after for form in found], feed, self.priced.profile)
        return [
            form if each is None else replace(form, predicted=each) for form, each in zip(found, seconds, strict=True)
        ]

    def by_models(self, options: Options) -> Iterator[_Form]:
        """Yield what cost models choose that differs: first the one that is asked for."""
        known: list[_Form] = []
        named: list[tuple[str, CostFunction, str]] = [
            ("what was asked for", options.cost_model, options.runtime),
            ("by measured kernels", self.priced, self.runtime),
            ("by operators", OpCount(), self.runtime),
            ("by operators", OpCount(), NO_RUNTIME),
            ("by roofline", Roofline("cpu"), self.runtime),
        ]
        for name, cost, runtime in named:
            done = self.forms.choose(cost, runtime)
            self.tried += 1
            if done.extraction.report.stop_reason == "interrupted":
                raise KeyboardInterrupt
            if not _is_known(done, known):
                known.append(self.form(name, done))
                yield known[-1]

    def next_best(self, best: _Form, known: Sequence[_Form]) -> list[_Form]:
        """Return what is best without one of the kernels of the best, the cheapest first."""
        kernels = best.kernels
        found: list[_Form] = []
        end = time.perf_counter() + _SEARCH
        for key in sorted(kernels, key=lambda each: (-kernels[each], each)):
            if time.perf_counter() > end:
                _log.info("no time to look for what is best without other kernels than the dearest")
                break
            form = self._without(best, frozenset([key]))
            if form is None or form.predicted > _NEAR * best.predicted or _is_known(form.done, [*known, *found]):
                continue
            found.append(form)
        return sorted(found, key=lambda each: each.predicted)[:_MOST]

    def without_all(self, best: _Form, pool: Sequence[_Form], ran: Race) -> _Form | None:
        """Return what is best without all the kernels without which it was faster."""
        limit = ran.runs[pool.index(best)]
        if not isinstance(limit, Run):
            return None
        faster = [
            form.without
            for form, each in zip(pool, ran.runs, strict=True)
            if form.without and isinstance(each, Run) and each.ratio < limit.ratio - each.error
        ]
        return self._without(best, frozenset().union(*faster)) if len(faster) > 1 else None

    def _without(self, best: _Form, keys: frozenset[str]) -> _Form | None:
        """What is best without some kernels; None where there is nothing, or no time to find it."""
        self.tried += 1
        barred = _Barred(self.priced, keys, best.predicted)
        try:
            done = self.forms.choose(barred, self.runtime, _EACH)
        except EqsatError as error:
            _log.info("nothing is chosen without %s: %s", ", ".join(sorted(keys)), error)
            return None
        form = self.form(f"without {' and '.join(sorted(keys))}", done, keys)
        return None if keys & {*form.kernels} else form


class _Asked(CostModel):
    """Remembers what each kernel takes that it is asked for."""

    def __init__(self, priced: Calibrated):
        self.priced = priced
        self.kernels: dict[str, float] = {}

    def __call__(self, node: CostNode) -> float:
        cost = self.priced(node)
        key = self.priced.key_of(node)
        if key is not None:
            self.kernels[key] = cost
        return cost

    def settle(self) -> bool:
        return self.priced.settle()


class _Barred(CostModel):
    """Some kernels take more than a whole graph does."""

    def __init__(self, priced: Calibrated, keys: frozenset[str], more: float):
        self.priced = priced
        self.keys = keys
        self.more = more

    def __call__(self, node: CostNode) -> float:
        return self.priced(node) + (self.more if self.priced.key_of(node) in self.keys else 0.0)
