"""Every error eqsat raises on bad input; all derive from :class:`EqsatError`."""

from __future__ import annotations


class EqsatError(Exception):
    """Base class: something handed to eqsat is wrong; the text says what, where and what to do."""


class ArgumentError(EqsatError, TypeError):
    """A function was given an argument of the wrong kind or value."""


class OperatorError(EqsatError):
    """An operator name or attribute that the registry does not know."""


class TypeCheckError(EqsatError):
    """A graph whose types do not check, or whose types cannot be inferred."""


class EvaluationError(EqsatError):
    """The interpreter cannot compute a value."""


class ParseError(EqsatError):
    """Malformed text; the message starts with line and column."""


class PatternError(EqsatError):
    """A pattern that is misused or cannot be matched."""


class NoMatchError(PatternError, KeyError):
    """A callback asks what a pattern matched that took no part in the match."""

    __str__ = PatternError.__str__


class StructuralMismatchError(EqsatError, ValueError):
    """Two graphs that were asserted to be structurally equal are not."""


class RewriteError(EqsatError):
    """A rewrite callback that misbehaves, or rewriting that does not end."""


class PassError(EqsatError):
    """A pass cannot be applied to this module."""


class RuleError(EqsatError):
    """A saturation rule that is ill-formed or unsound on some match."""


class EngineError(EqsatError):
    """The e-graph engine failed; the e-graph at hand is no longer usable."""


class LimitError(EqsatError, ValueError):
    """A limit that is zero, negative or not a number."""


class ExtractionError(EqsatError):
    """No graph can be extracted, or a cost model misbehaves."""


class ModelError(EqsatError):
    """A model file that cannot be read, understood or written."""


class FileError(EqsatError):
    """A file that cannot be written."""


class CertificateError(EqsatError):
    """A certificate that cannot be made or read, or that does not prove what it says."""


class ProfileError(EqsatError):
    """A profile of kernels that cannot be read, or is of another machine."""
