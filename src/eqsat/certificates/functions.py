"""Certificates of functions and expressions of the IR."""

from __future__ import annotations

from eqsat.certificates import certificate as certificates
from eqsat.certificates.certificate import Certificate
from eqsat.certificates.checker import Checked, Pair
from eqsat.certificates.checker import check as check_steps
from eqsat.certificates.literals import NotPlain
from eqsat.certificates.writer import Recorder, finished, record_choice
from eqsat.collector import paused_gc
from eqsat.egraph.rule import Rule, flatten
from eqsat.errors import CertificateError
from eqsat.pipeline.extract import Extraction
from eqsat.pipeline.options import Rules
from eqsat.relay.analysis import free_vars
from eqsat.relay.expr import Expr, Function
from eqsat.relay.module import IRModule


def certify(extraction: Extraction) -> Certificate:
    """Return a certificate that the extracted graph computes the same values as the given one.

    The attribute ``uncovered`` of the certificate lists the parts that its steps do not prove.

    Args:
        extraction: The result of an extraction, from a saturation with ``explain=True``.

    Raises:
        ArgumentError: The graph was saturated without ``explain=True``.
        CertificateError: A module was extracted, or the graph has parts that certificates do not support.
    """
    source = extraction.source
    if isinstance(source, IRModule) or len(extraction.explanations) != 1:
        raise CertificateError(
            "a certificate covers one function that contains no other functions: optimize each function separately"
        )
    (explanation,) = extraction.explanations
    before, after = _functions(source, extraction.expr)
    with paused_gc():
        recorder = Recorder(Pair(before, after), with_shipped(explanation.region.rules))
        inputs = recorder.pair.inputs
        try:
            record_choice(recorder, explanation, after.body, inputs.__getitem__)
        except NotPlain as why:
            recorder.uncovered.append(str(why))
        return finished(recorder, Pair(before, after))[0]


def check(before: Expr, after: Expr, certificate: certificates.Given, rules: Rules | None = None) -> Checked:
    """Check a certificate that two functions or expressions compute the same values.

    Args:
        before, after: Two functions, or two expressions over the same variables.
        certificate: The certificate, its JSON data as a dictionary, or the path of a file.
        rules: The rules that the graph was optimized with, in addition to those that eqsat ships.

    Returns:
        The result of the check; its attribute ``proved`` is true if the certificate covers the whole graph.

    Raises:
        CertificateError: The certificate cannot be read, belongs to other functions or to other versions of rules, or
            contains a step that does not hold. The message names the step.
    """
    read = certificates.read(certificate)
    with paused_gc():
        return check_steps(Pair(*_functions(before, after)), read, with_shipped(() if rules is None else rules))


def _functions(before: Expr, after: Expr) -> tuple[Function, Function]:
    """Two functions, or the functions of the variables that two expressions are over."""
    if isinstance(before, Function) and isinstance(after, Function):
        return before, after
    params = free_vars(before)
    return Function(params, before), Function(params, after)


def with_shipped(rules: Rules) -> list[Rule]:
    """Rules, and those that are shipped, of which a rule of the same name takes the place."""
    from eqsat.rules import sets

    shipped = {rule.name: rule for each in sets.values() for rule in each}
    return list({**shipped, **{rule.name: rule for rule in flatten(rules)}}.values())
