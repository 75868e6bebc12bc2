"""What the commands print with ``--json``, as types: :mod:`eqsat.cli.schemas` makes JSON Schemas of them.

A docstring says what each field means.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from eqsat.onnx.constants import Folded
from eqsat.onnx.latency import Latency
from eqsat.onnx.unmatched import Unmatched
from eqsat.onnx.why import Why
from eqsat.pipeline.explain import Change
from eqsat.rules.prove import Proof
from eqsat.rules.verify import Verdict

Keeps = Literal["exact", "rounding", "finite"]
Opaque = dict[str, dict[str, int]]
Cost = float | list[float]


class Nodes(TypedDict):
    """Numbers of nodes of the ONNX models, Constants left out.

    Attributes:
        before: Of the given model.
        after: Of the model that was made.
    """

    before: int
    after: int


class CostUnit(TypedDict):
    """What costs count.

    Attributes:
        model: The cost model, as ``--cost`` names it.
        unit: The unit of its numbers; empty if it does not say one.
    """

    model: str
    unit: str


class Costs(CostUnit):
    """What the models cost: one number, or several that are compared in order where the cost model gives several.

    Attributes:
        model: The cost model, as ``--cost`` names it.
        unit: The unit of its numbers; empty if it does not say one.
        before: Of the given model.
        after: Of the model that was made.
        lower_bound: What no model that the rules lead to costs less than; null if no bound is known.
        optimal: Whether it is proved that none costs less.
    """

    before: Cost
    after: Cost
    lower_bound: Cost | None
    optimal: bool


class Kernels(TypedDict):
    """How much is known of the kernels of which a measured cost is made up.

    Attributes:
        measured: How many were measured.
        noisy: Of how many of these the runs differ by more than they should.
        estimated: How many were estimated.
        unknown: How many nodes are no kernels, such as those of unknown sizes.
        told: The same as text.
    """

    measured: int
    noisy: int
    estimated: int
    unknown: int
    told: str


class RuleMatches(TypedDict):
    """What a rule did.

    Attributes:
        matches: How many matches it had.
        seconds: Time that it took, in seconds.
    """

    matches: int
    seconds: float


class MeasuredCandidate(TypedDict):
    """A model that ran.

    Attributes:
        name: What chose it.
        nodes: How many nodes it has.
        predicted: Seconds that its kernels take together.
        measured: Seconds that it takes, the median of its runs; null where it did not run.
        ratio: What it takes over what the given model takes; null where it did not run.
        problem: Why it did not run; empty if it did.
        chosen: Whether it is the model that was written.
    """

    name: str
    nodes: int
    predicted: float
    measured: float | None
    ratio: float | None
    problem: str
    chosen: bool


class Candidates(TypedDict):
    """The models that ran in turn.

    Attributes:
        threads: With how many threads; 0 for as many as onnxruntime takes by itself.
        level: With which level of onnxruntime's own optimizer.
        inputs: Name of each input -> its type and shape.
        noise: By what share times differed for no reason.
        told: The outcome as text.
        measured: The models, the given one first.
    """

    threads: int
    level: str
    inputs: dict[str, str]
    noise: float
    told: str
    measured: list[MeasuredCandidate]


class OutputDifference(TypedDict):
    """By how much an output of the model that was made differs from that of the given one.

    Attributes:
        output: Its name.
        absolute: Largest difference of an element; null if it is not bounded.
        relative: The same over the largest value of the output; null if it is not bounded.
    """

    output: str
    absolute: float | None
    relative: float | None


class Mistakes(TypedDict):
    """How many mistakes the comparison notices.

    Attributes:
        tried: How many weights were made wrong, each by itself.
        unnoticed: Names of those that no output told of.
        problem: Why none was tried, or not all; empty if all were.
        noticed: How many an output told of.
    """

    tried: int
    unnoticed: list[str]
    problem: str
    noticed: int


class Comparison(TypedDict):
    """How the models were compared.

    Attributes:
        inputs: Name of each input -> its type and shape.
        kinds: How floats were drawn -> on how many inputs so.
        seed: Of the random numbers.
        seconds: Time that it took, in seconds.
        most_seconds: Time that it might have taken beside the least that it does.
        mistakes: How many mistakes it notices.
        proves_nothing: Output -> why its comparison proves nothing; under the empty name, of all outputs together.
    """

    inputs: dict[str, str]
    kinds: dict[str, int]
    seed: int
    seconds: float
    most_seconds: float
    mistakes: Mistakes
    proves_nothing: dict[str, str]


class ProvedNodes(TypedDict):
    """How much of the model that was made follows from the given one by rules.

    Attributes:
        nodes: What is kept of values -> number of nodes: ``exact``, ``rounding`` and ``finite``, and ``sampled`` for
            those that no step leads to.
        sampled: Of the last, how many of each operator.
        uncovered: What no step shows, in words.
        told: The same as text.
    """

    nodes: dict[str, int]
    sampled: dict[str, int]
    uncovered: list[str]
    told: str


class Compared(TypedDict):
    """A comparison of two models."""

    differences: list[OutputDifference]
    verified: NotRequired[Comparison]


class CertificateFacts(TypedDict):
    """What a certificate shows.

    Attributes:
        steps: Number of its steps.
        keeps: What they keep of values.
        rules: Names of the rules that they apply.
        uncovered: What no step shows, in words.
    """

    steps: int
    keeps: Keeps
    rules: list[str]
    uncovered: list[str]


class FiniteOffer(TypedDict):
    """What could be had with ``--rules default --rules finite``.

    Attributes:
        nodes: How many nodes fewer.
        rules: Names of the rules that find them.
        told: The same as text.
    """

    nodes: int
    rules: list[str]
    told: str


class Explained(TypedDict):
    """How the result follows from the given model."""

    made_by: NotRequired[dict[str, int]]
    changes: NotRequired[list[Change]]


class Optimize(Compared, Explained):
    """What ``eqsat optimize`` did.

    Attributes:
        nodes: Numbers of nodes.
        cost: What was minimized.
        kernels: With a measured cost: how much is known of the kernels.
        runtime: The runtime whose kernels count as one operator each.
        stop_reason: What ended the saturation.
        iterations: How many iterations it had.
        e_nodes: How many e-nodes the largest e-graph had.
        rules: Name of each rule that changed an e-graph -> what it did.
        opaque: Operator that was passed through as it is -> why, with the number of nodes.
        folded: What became of nodes over constants that eqsat does not know itself.
        seconds: Phase -> time that it took, in seconds.
        candidates: With ``--measure``: the models that ran in turn.
        differences: With ``--verify`` or ``--inputs``: how outputs differ; else empty.
        verified: With ``--verify`` or ``--inputs``: how the models were compared.
        proved: With ``--verify`` or ``--inputs``: how much is proved.
        certificate: With ``--certificate``: what it shows.
        latency: With ``--bench``: the latency of both models, once for each setting of onnxruntime's optimizer.
        offer: What finite rules would save, if anything.
        made_by: With ``--explain``: rule, or ``input`` for what is as it was -> number of operators that it made.
        changes: With ``--explain``: the steps from the given model to the result.
    """

    nodes: Nodes
    cost: Costs
    kernels: NotRequired[Kernels]
    runtime: str
    stop_reason: Literal["saturated", "iterations", "nodes", "seconds", "memory"]
    iterations: int
    e_nodes: int
    rules: dict[str, RuleMatches]
    opaque: Opaque
    folded: Folded
    seconds: dict[str, float]
    candidates: NotRequired[Candidates]
    proved: NotRequired[ProvedNodes]
    certificate: NotRequired[CertificateFacts]
    latency: NotRequired[list[Latency]]
    offer: NotRequired[FiniteOffer]


class OptimizeAllRow(TypedDict):
    """What became of one model.

    Attributes:
        source: Its file.
        target: The file of the result.
        status: ``skipped`` if it was done before.
        error: Why it failed; empty if it did not.
        seconds: Time that it took now, in seconds.
        facts: What ``eqsat optimize`` prints of it; null if it failed.
    """

    source: str
    target: str
    status: Literal["done", "skipped", "failed"]
    error: str
    seconds: float
    facts: Optimize | None


class Partition(Compared, Explained):
    """What ``eqsat partition`` did.

    Attributes:
        nodes: Numbers of nodes.
        composites: Name of each composite function -> number of its calls.
        runtime: The runtime whose kernels count as one operator each.
        opaque: Operator that was passed through as it is -> why, with the number of nodes.
        folded: What became of nodes over constants that eqsat does not know itself.
        differences: With ``--verify`` or ``--inputs``: how outputs differ; else empty.
        verified: With ``--verify`` or ``--inputs``: how the models were compared.
        unmatched: Where there are no composites: why.
        made_by: With ``--explain``: rule, or ``input`` for what is as it was -> number of operators that it made.
        changes: With ``--explain``: the steps from the given model to the result.
    """

    nodes: Nodes
    composites: dict[str, int]
    runtime: str
    opaque: Opaque
    folded: Folded
    unmatched: NotRequired[Unmatched]


class Bisect(TypedDict):
    """What ``eqsat bisect`` found.

    Attributes:
        rules: Names of the rules with which the check fails; null if it passes with all of them, and empty if it fails
            without any.
        runs: How many models were checked.
        changes: What the rules changed, as text.
    """

    rules: list[str] | None
    runs: int
    changes: list[str]


class Kernel(TypedDict):
    """What is known of a kernel.

    Attributes:
        seconds: What it takes; null where it could not be measured.
        spread: By what part of that the middle half of its runs differ.
    """

    seconds: float | None
    spread: float


class Calibrate(TypedDict):
    """What ``eqsat calibrate`` knows.

    Attributes:
        machine: The machine, and the versions of what runs there.
        threads: With how many threads kernels run; 0 for as many as onnxruntime takes by itself.
        level: With which level of onnxruntime's own optimizer.
        date: When the first of them was measured.
        change: How many seconds more a kernel takes among others than among its like; null if that was not measured.
        kernels: How many kernels are known.
        new: How many of them were measured now.
        noisy: Of how many the runs differ by more than they should.
        skipped: Kernel that could not be measured -> why.
        unknown: Operators of nodes that are no kernels, such as those of unknown sizes.
        errors: Operators -> mean relative error of estimates of their kernels; null if it is not bounded.
        removed: Files of other machines and versions that ``--prune`` removed.
        entries: With ``--show``: kernel -> what is known of it.
    """

    machine: str
    threads: int
    level: str
    date: str
    change: float | None
    kernels: int
    new: int
    noisy: int
    skipped: dict[str, str]
    unknown: list[str]
    errors: dict[str, float | None]
    removed: list[str]
    entries: NotRequired[dict[str, Kernel]]


class Check(CertificateFacts):
    """What ``eqsat check`` found.

    Attributes:
        proved: Whether the steps lead from the given model to the result.
        steps: Number of its steps.
        keeps: What they keep of values.
        rules: Names of the rules that they apply.
        uncovered: What no step shows, in words.
    """

    proved: bool


class Order(TypedDict):
    """One way to apply the rules, and its result.

    Attributes:
        kind: ``order`` of rules, ``phases`` of rule sets, ``random`` choices or ``saturation``.
        order: Names of the rules or rule sets in their order; for random choices, of those that changed the graph.
        cost: Cost of the result.
        passes: Number of passes of single rules; for saturation, of iterations.
        seconds: Time that it took, in seconds.
        stop: What ended it: ``settled`` or ``saturated``, ``loop``, or the limit that was reached.
    """

    kind: Literal["order", "phases", "random", "saturation"]
    order: list[str]
    cost: float
    passes: int
    seconds: float
    stop: str


class Compare(Explained):
    """What ``eqsat compare`` found.

    Attributes:
        input_cost: Cost of the given model.
        saturation: Saturation with all rules.
        rows: A row for each order and each random run.
        ties: How many of them end at the cost of saturation.
        skipped: Name of each rule that cannot be applied in place -> why.
        cost: What costs count.
        runtime: The runtime whose kernels count as one operator each.
        made_by: With ``--explain``: rule, or ``input`` for what is as it was -> number of operators that it made.
        changes: With ``--explain``: the steps from the given model to the result.
    """

    input_cost: float
    saturation: Order
    rows: list[Order]
    ties: int
    skipped: dict[str, str]
    cost: CostUnit
    runtime: str


class RoundedConstant(TypedDict):
    """A constant that was taken for what the other model computes, from which it differs by rounding.

    Attributes:
        constant: It, as text.
        place: Where it is from; empty if that is not known.
        size: How many elements it has.
        differing: How many of them differ.
        difference: By how much at most; null if that is not bounded.
    """

    constant: str
    place: str
    size: int
    differing: int
    difference: float | None


class Counterexample(TypedDict):
    """An input on which the models differ.

    Attributes:
        output: The number of the output that differs most.
        difference: The largest difference of an element there; null if it is not bounded.
        bound: How far rounding may lead there; null if that is not bounded.
        inputs: Name of each input -> its value in short.
    """

    output: int
    difference: float | None
    bound: float | None
    inputs: dict[str, str]


class Part(TypedDict):
    """A node of one of the models.

    Attributes:
        node: It, as text.
        place: Where it is from; empty if that is not known.
        value: Its value on the input, in short; null where that is not known.
    """

    node: str
    place: str
    value: str | None


class Equal(TypedDict):
    """What ``eqsat equal`` found.

    Attributes:
        answer: The answer.
        keeps: The least that a rule of the proof keeps of values; null without a proof.
        rules: Name of each rule of the proof -> what it keeps.
        rounded: Constants within rounding.
        difference: An input on which they differ; null if none is known.
        pairs: Where they part: a node of each model; null where nothing stands in its place.
        proved: How many nodes of the second model are proved equal to one of the first.
        nodes: How many nodes the second model has.
        samples: On how many inputs the models were evaluated.
        reason: What kept the answer from being another one; empty for a proof.
        needed: Where the answer is ``unknown``: the rules of a proof that holds where values are finite.
        seconds: Phase -> time that it took, in seconds.
    """

    answer: Literal["equal", "different", "unknown"]
    keeps: Keeps | None
    rules: dict[str, Keeps]
    rounded: list[RoundedConstant]
    difference: Counterexample | None
    pairs: list[tuple[Part | None, Part | None]]
    proved: int
    nodes: int
    samples: int
    reason: str
    needed: dict[str, Keeps]
    seconds: dict[str, float]


class ExtractRow(TypedDict):
    """What ``eqsat extract`` found in one file by one method.

    Attributes:
        file: The file.
        nodes: How many e-nodes it has.
        classes: How many e-classes.
        method: The method.
        cost: What the chosen graph costs, nodes that are shared counted once; null if none was found.
        lower_bound: What no graph costs less than; null if no bound is known.
        optimal: Whether it is proved that none costs less.
        tree_cost: What it costs if shared nodes count as often as they are used; null if that is too much for a float.
        seconds: Time that it took, in seconds.
        remark: What the method has to say; empty if nothing.
    """

    file: str
    nodes: int
    classes: int
    method: str
    cost: float | None
    lower_bound: float | None
    optimal: bool
    tree_cost: float | None
    seconds: float
    remark: str


class ListedRule(TypedDict):
    """A rule that is shipped.

    Attributes:
        keeps: What it keeps of values.
        proved: For what it is proved; empty if it is only tested.
    """

    keeps: Keeps
    proved: str


class Function(TypedDict):
    """A function of a graph.

    Attributes:
        parameters: Name of each parameter -> its type.
        operators: Operator -> number of its calls.
    """

    parameters: dict[str, str]
    operators: dict[str, int]


class Show(TypedDict):
    """What ``eqsat show`` counts.

    Attributes:
        functions: Name of each function -> what it has.
        opaque: Operator of an ONNX model that is not understood -> why, with the number of nodes.
    """

    functions: dict[str, Function]
    opaque: Opaque


class VariantFacts(Compared):
    """A variant that was written.

    Attributes:
        file: Its file.
        nodes: Its number of nodes, Constants left out.
        rules: Names of the rules that made it, in order.
        differences: With ``--verify`` or ``--inputs``: how outputs differ; else empty.
        verified: With ``--verify`` or ``--inputs``: how the models were compared.
    """

    file: str
    nodes: int
    rules: list[str]


class Variants(TypedDict):
    """What ``eqsat variants`` wrote.

    Attributes:
        asked: How many variants were asked for.
        variants: Those that were written.
    """

    asked: int
    variants: list[VariantFacts]


class WhyNot(TypedDict):
    """What ``eqsat why-not`` found.

    Attributes:
        rule: Name of the rule.
        outcome: What became of it.
        reasons: Why, the most likely reason first.
    """

    rule: str
    outcome: Literal["chosen", "declined", "acted", "refused", "cut", "unmatched"]
    reasons: list[str]


OUTPUTS = {
    "bisect": Bisect,
    "calibrate": Calibrate,
    "check": Check,
    "compare": Compare,
    "equal": Equal,
    "extract": list[ExtractRow],
    "optimize": Optimize,
    "optimize-all": list[OptimizeAllRow],
    "partition": Partition,
    "rules list": dict[str, dict[str, ListedRule]],
    "rules prove": list[Proof],
    "rules verify": list[Verdict],
    "show": Show,
    "variants": Variants,
    "why": Why,
    "why-not": WhyNot,
}
"""Name of a command -> the type of what it prints."""
