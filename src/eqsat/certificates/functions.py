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
    """A certificate that a chosen graph computes the same as the given one.

    What no step shows is told in ``uncovered``.

    Args:
        extraction: The choice, from a saturation with ``explain=True``.

    Raises:
        ArgumentError: The saturation was made without ``explain=True``.
        CertificateError: It is of a module, or its graph has parts that no certificate speaks of.
    """
    source = extraction.source
    if isinstance(source, IRModule) or len(extraction.explanations) != 1:
        raise CertificateError("a certificate is of one function, without functions in it: optimize each by itself")
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
    """Check a certificate that one function or expression computes the same as another one.

    Args:
        before, after: Two functions, or two expressions over the same variables.
        certificate: The certificate, what JSON holds of it, or the path of a file.
        rules: The rules that it was optimized by, if they were others than those that are shipped.

    Returns:
        What was checked; ``proved`` tells whether the certificate covers all.

    Raises:
        CertificateError: The certificate cannot be read, is of other functions or of other versions of rules, or a
            step does not hold; the message names the step.
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
