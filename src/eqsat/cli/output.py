"""The output of the commands with ``--json``, as types; :mod:`eqsat.cli.schemas` converts them to JSON Schemas.

The docstrings describe the fields.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from eqsat.onnx.constants import Folded
from eqsat.onnx.latency import Latency
from eqsat.onnx.reasons import Why
from eqsat.onnx.unmatched import Unmatched
from eqsat.pipeline.explain import Change
from eqsat.rules.prove import Proof
from eqsat.rules.verify import Verdict

Keeps = Literal["exact", "rounding", "finite"]
Opaque = dict[str, dict[str, int]]
Cost = float | list[float]


class Nodes(TypedDict):
    """Numbers of nodes of the ONNX models, without Constant nodes.

    Attributes:
        before: Number of nodes of the given model.
        after: Number of nodes of the new model.
    """

    before: int
    after: int


class CostUnit(TypedDict):
    """The cost model and its unit.

    Attributes:
        model: The cost model, as named by ``--cost``.
        unit: The unit of the costs; empty if the cost model does not declare one.
    """

    model: str
    unit: str


class Costs(CostUnit):
    """The costs of the models: numbers, or lists of numbers that are compared in order.

    Attributes:
        model: The cost model, as named by ``--cost``.
        unit: The unit of the costs; empty if the cost model does not declare one.
        before: The cost of the given model.
        after: The cost of the new model.
        lower_bound: No model that the rules lead to costs less than this; null if no bound is known.
        optimal: Whether it is proved that no such model costs less than the new one.
    """

    before: Cost
    after: Cost
    lower_bound: Cost | None
    optimal: bool


class Kernels(TypedDict):
    """How much is known about the kernels of which a measured cost consists.

    Attributes:
        measured: Number of kernels that were measured.
        noisy: Number of measured kernels whose runs differ by more than they should.
        estimated: Number of kernels that were estimated.
        unknown: Number of nodes that are not kernels, such as nodes with unknown sizes.
        told: A summary as text.
    """

    measured: int
    noisy: int
    estimated: int
    unknown: int
    told: str


class RuleMatches(TypedDict):
    """What a rule did.

    Attributes:
        matches: Number of matches.
        seconds: Time of the rule, in seconds.
    """

    matches: int
    seconds: float


class MeasuredCandidate(TypedDict):
    """A model that ran.

    Attributes:
        name: Name of the candidate, which says how it was chosen.
        nodes: Number of nodes.
        predicted: Sum of the times of its kernels, in seconds.
        measured: Median time of a run, in seconds; null if it did not run.
        ratio: Its time divided by that of the given model; null if it did not run.
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
        threads: Number of threads; 0 if onnxruntime chose it.
        level: Level of the runtime's own optimizer.
        inputs: Name of each input -> its type and shape.
        noise: Share by which times differed without a reason.
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
    """The difference of an output of the new model from the same output of the given one.

    Attributes:
        output: Name of the output.
        absolute: Largest absolute difference of an element; null if it is not bounded.
        relative: Largest difference divided by the largest value of the output; null if it is not bounded.
    """

    output: str
    absolute: float | None
    relative: float | None


class Mistakes(TypedDict):
    """How many injected mistakes the comparison notices.

    Attributes:
        tried: Number of weights that were changed, one at a time.
        unnoticed: Names of the changed weights that made no output differ.
        problem: Why no weights, or not all, were tried; empty if all were.
        noticed: Number of changed weights that made an output differ.
    """

    tried: int
    unnoticed: list[str]
    problem: str
    noticed: int


class Comparison(TypedDict):
    """How the models were compared.

    Attributes:
        inputs: Name of each input -> its type and shape.
        kinds: Kind of input (how floats were drawn) -> number of inputs of this kind.
        seed: Seed of the random numbers.
        seconds: Time of the comparison, in seconds.
        most_seconds: Time limit of the optional part of the comparison, in seconds.
        mistakes: How many injected mistakes it notices.
        proves_nothing: Output -> why its comparison proves nothing; the empty name stands for all outputs together.
    """

    inputs: dict[str, str]
    kinds: dict[str, int]
    seed: int
    seconds: float
    most_seconds: float
    mistakes: Mistakes
    proves_nothing: dict[str, str]


class ProvedNodes(TypedDict):
    """How many nodes of the new model follow from the given one by rules.

    Attributes:
        nodes: Soundness of the steps -> number of nodes: ``exact``, ``rounding`` and ``finite``, and ``sampled`` for
            nodes that no step leads to.
        sampled: Operator -> number of its ``sampled`` nodes.
        uncovered: Descriptions of the parts that no step proves.
        told: A summary as text.
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
    """What a certificate proves.

    Attributes:
        steps: Number of steps.
        keeps: The weakest soundness of a step.
        rules: Names of the rules that the steps apply.
        uncovered: Descriptions of the parts that no step proves.
    """

    steps: int
    keeps: Keeps
    rules: list[str]
    uncovered: list[str]


class FiniteOffer(TypedDict):
    """What ``--rules default --rules finite`` would save.

    Attributes:
        nodes: Number of nodes that the model would have less.
        rules: Names of the rules that achieve this.
        told: A summary as text.
    """

    nodes: int
    rules: list[str]
    told: str


class Explained(TypedDict):
    """How the result follows from the given model."""

    made_by: NotRequired[dict[str, int]]
    changes: NotRequired[list[Change]]


class Optimize(Compared, Explained):
    """The result of ``eqsat optimize``.

    Attributes:
        nodes: Numbers of nodes.
        cost: The cost that was minimized.
        kernels: With a measured cost: how much is known about the kernels.
        runtime: The runtime whose kernels count as one operator each.
        stop_reason: Why the saturation ended.
        iterations: Number of iterations of the saturation.
        e_nodes: Number of e-nodes of the largest e-graph.
        rules: Name of each rule that changed an e-graph -> what it did.
        opaque: Operator of nodes that passed through unchanged -> why, with the number of nodes.
        folded: What happened to nodes over constants that eqsat does not understand.
        seconds: Phase -> time in seconds.
        candidates: With ``--measure``: the models that ran in turn.
        differences: With ``--verify`` or ``--inputs``: the differences of the outputs; otherwise empty.
        verified: With ``--verify`` or ``--inputs``: how the models were compared.
        proved: With ``--verify`` or ``--inputs``: how many nodes are proved.
        certificate: With ``--certificate``: what the certificate proves.
        latency: With ``--bench``: the latency of both models, once for each setting of onnxruntime's optimizer.
        offer: What finite rules would save, if anything.
        made_by: With ``--explain``: rule, or ``input`` for unchanged operators -> number of operators that it created.
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
    """The result for one model.

    Attributes:
        source: The file of the model.
        target: The file of the result.
        status: ``skipped`` if the result existed already.
        error: Why the model failed; empty if it did not.
        seconds: Time in this run, in seconds.
        facts: What ``eqsat optimize`` prints about it; null if it failed.
    """

    source: str
    target: str
    status: Literal["done", "skipped", "failed"]
    error: str
    seconds: float
    facts: Optimize | None


class Partition(Compared, Explained):
    """The result of ``eqsat partition``.

    Attributes:
        nodes: Numbers of nodes.
        composites: Name of each composite function -> number of its calls.
        runtime: The runtime whose kernels count as one operator each.
        opaque: Operator of nodes that passed through unchanged -> why, with the number of nodes.
        folded: What happened to nodes over constants that eqsat does not understand.
        differences: With ``--verify`` or ``--inputs``: the differences of the outputs; otherwise empty.
        verified: With ``--verify`` or ``--inputs``: how the models were compared.
        unmatched: Why there are no composites, if there are none.
        made_by: With ``--explain``: rule, or ``input`` for unchanged operators -> number of operators that it created.
        changes: With ``--explain``: the steps from the given model to the result.
    """

    nodes: Nodes
    composites: dict[str, int]
    runtime: str
    opaque: Opaque
    folded: Folded
    unmatched: NotRequired[Unmatched]


class Bisect(TypedDict):
    """The result of ``eqsat bisect``.

    Attributes:
        rules: Names of the rules with which the check fails; null if it passes with all rules, and empty if it fails
            without any rule.
        runs: Number of models that were checked.
        changes: What the rules changed, as text.
    """

    rules: list[str] | None
    runs: int
    changes: list[str]


class Kernel(TypedDict):
    """What is known about a kernel.

    Attributes:
        seconds: Time of the kernel, in seconds; null if it could not be measured.
        spread: Difference of the middle half of its runs, as a share of that time.
    """

    seconds: float | None
    spread: float


class Calibrate(TypedDict):
    """The result of ``eqsat calibrate``.

    Attributes:
        machine: The machine, and the versions of the software that ran.
        threads: Number of threads of a kernel; 0 if onnxruntime chose it.
        level: Level of the runtime's own optimizer.
        date: When the first kernel was measured.
        change: Additional time of a kernel between kernels of other kinds, in seconds, compared with kernels of its own
            kind; null if it was not measured.
        kernels: Number of kernels that are known.
        new: Number of kernels that were measured in this run.
        noisy: Number of kernels whose runs differ by more than they should.
        skipped: Kernel that could not be measured -> why.
        left: Number of kernels that were not measured because the time was over.
        unknown: Operators of nodes that are not kernels, such as nodes with unknown sizes.
        errors: Operators -> mean relative error of the estimates for their kernels; null if it is not bounded.
        spent: Processor time of the measurements in seconds: ``writing`` the models of kernels, ``loading`` and
            ``running`` them, and running the ``reference`` beside them.
        removed: Files of other machines and versions that ``--prune`` removed.
        entries: With ``--show``: kernel -> what is known about it.
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
    left: int
    unknown: list[str]
    errors: dict[str, float | None]
    spent: dict[str, float]
    removed: list[str]
    entries: NotRequired[dict[str, Kernel]]


class Check(CertificateFacts):
    """The result of ``eqsat check``.

    Attributes:
        proved: Whether the steps lead from the given model to the result.
        steps: Number of steps.
        keeps: The weakest soundness of a step.
        rules: Names of the rules that the steps apply.
        uncovered: Descriptions of the parts that no step proves.
    """

    proved: bool


class Order(TypedDict):
    """One way to apply the rules, and its result.

    Attributes:
        kind: ``order`` of rules, ``phases`` of rule sets, ``random`` choices or ``saturation``.
        order: Names of the rules or rule sets in order; for random choices, the rules that changed the graph.
        cost: Cost of the result.
        passes: Number of passes of single rules; for saturation, number of iterations.
        seconds: Time of the run, in seconds.
        stop: Why it ended: ``settled`` or ``saturated`` if no rule changes anything, ``loop`` if an earlier graph came
            back, or the limit that was reached.
    """

    kind: Literal["order", "phases", "random", "saturation"]
    order: list[str]
    cost: float
    passes: int
    seconds: float
    stop: str


class Compare(Explained):
    """The result of ``eqsat compare``.

    Attributes:
        input_cost: Cost of the given model.
        saturation: The row of saturation with all rules.
        rows: A row for each order and each random run.
        ties: Number of rows whose cost equals that of saturation.
        skipped: Name of each rule that cannot be applied in place -> why.
        cost: The cost model and its unit.
        runtime: The runtime whose kernels count as one operator each.
        made_by: With ``--explain``: rule, or ``input`` for unchanged operators -> number of operators that it created.
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
    """A constant that was taken for a computation of the other model, from which it differs by rounding.

    Attributes:
        constant: The constant, as text.
        place: Where it comes from; empty if that is not known.
        size: Number of elements.
        differing: Number of elements that differ.
        difference: Largest absolute difference of an element; null if it is not bounded.
    """

    constant: str
    place: str
    size: int
    differing: int
    difference: float | None


class Counterexample(TypedDict):
    """An input on which the models differ.

    Attributes:
        output: Number of the output that differs most.
        difference: Largest absolute difference of an element of that output; null if it is not bounded.
        bound: The difference that rounding may cause there; null if it is not bounded.
        inputs: Name of each input -> a short form of its value.
    """

    output: int
    difference: float | None
    bound: float | None
    inputs: dict[str, str]


class Part(TypedDict):
    """A node of one of the models.

    Attributes:
        node: The node, as text.
        place: Where it comes from; empty if that is not known.
        value: A short form of its value on the input; null if it is not known.
    """

    node: str
    place: str
    value: str | None


class Equal(TypedDict):
    """The result of ``eqsat equal``.

    Attributes:
        answer: The answer.
        keeps: The weakest soundness of a rule of the proof; null without a proof.
        rules: Name of each rule of the proof -> its soundness.
        rounded: Constants that are equal up to rounding.
        difference: An input on which the models differ; null if none is known.
        pairs: Where the models differ: a node of each model; null if there is no corresponding node.
        proved: Number of nodes of the second model that are proved equal to one of the first.
        nodes: Number of nodes of the second model.
        samples: Number of inputs on which the models were evaluated.
        reason: Why the answer is not a different one; empty for a proof.
        needed: If the answer is ``unknown``: the rules of a proof that holds if values are finite.
        seconds: Phase -> time in seconds.
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
    """The result of ``eqsat extract`` for one file and one method.

    Attributes:
        file: The file.
        nodes: Number of e-nodes.
        classes: Number of e-classes.
        method: The method.
        cost: The cost of the chosen graph; shared nodes count once. It is null if no graph was found.
        lower_bound: No graph costs less than this; null if no bound is known.
        optimal: Whether it is proved that no graph costs less.
        tree_cost: The cost of the chosen graph if shared nodes count as often as they are used; null if it exceeds the
            range of floats.
        seconds: Time of the method, in seconds.
        remark: A remark of the method; often empty.
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
    """A rule of eqsat.

    Attributes:
        keeps: Its soundness.
        proved: What it is proved for; empty if it is only tested.
    """

    keeps: Keeps
    proved: str


class Function(TypedDict):
    """A function of a graph.

    Attributes:
        parameters: Name of each parameter -> its type.
        operators: Operator -> number of calls.
    """

    parameters: dict[str, str]
    operators: dict[str, int]


class Show(TypedDict):
    """The summary that ``eqsat show`` prints.

    Attributes:
        functions: Name of each function -> its parameters and operators.
        opaque: Operator of an ONNX model that is not understood -> why, with the number of nodes.
    """

    functions: dict[str, Function]
    opaque: Opaque


class VariantFacts(Compared):
    """A variant that was written.

    Attributes:
        file: The file.
        nodes: Number of nodes, without Constant nodes.
        rules: Names of the rules that created it, in order.
        differences: With ``--verify`` or ``--inputs``: the differences of the outputs; otherwise empty.
        verified: With ``--verify`` or ``--inputs``: how the models were compared.
    """

    file: str
    nodes: int
    rules: list[str]


class Variants(TypedDict):
    """The result of ``eqsat variants``.

    Attributes:
        asked: Number of variants that were requested.
        variants: The variants that were written.
    """

    asked: int
    variants: list[VariantFacts]


class WhyNot(TypedDict):
    """The result of ``eqsat why-not``.

    Attributes:
        rule: Name of the rule.
        outcome: The outcome of the rule.
        reasons: The reasons, the most likely one first.
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
