"""The errors that eqsat raises on bad input. All of them derive from :class:`EqsatError`."""

from __future__ import annotations


class EqsatError(Exception):
    """Base class of errors about bad input; the message says what is wrong, where, and what to do."""


class ArgumentError(EqsatError, TypeError):
    """A function was given an argument of the wrong kind or value."""


class OperatorError(EqsatError):
    """An operator name or attribute is not in the operator registry."""


class TypeCheckError(EqsatError):
    """A graph is not well typed, or its types cannot be inferred."""


class EvaluationError(EqsatError):
    """The interpreter cannot compute a value."""


class ParseError(EqsatError):
    """Text cannot be parsed; the message starts with the line and column."""


class PatternError(EqsatError):
    """A pattern is used in a wrong way or cannot be matched."""


class NoMatchError(PatternError, KeyError):
    """A callback asks for the match of a pattern that took no part in the match."""

    __str__ = PatternError.__str__


class StructuralMismatchError(EqsatError, ValueError):
    """Two graphs are not structurally equal, although an assertion requires it."""


class RewriteError(EqsatError):
    """A rewrite callback returns something wrong, or rewriting does not terminate."""


class PassError(EqsatError):
    """A pass cannot be applied to this module."""


class RuleError(EqsatError):
    """A rule is ill-formed, fails, or would make e-classes of different types equal."""


class EngineError(EqsatError):
    """The e-graph engine failed; its e-graph can no longer be used."""


class LimitError(EqsatError, ValueError):
    """A limit is zero, negative or not a number."""


class ExtractionError(EqsatError):
    """No graph can be extracted, or a cost model fails or returns something other than finite numbers."""


class ModelError(EqsatError):
    """A model cannot be read, understood or written."""


class FileError(EqsatError):
    """A file or folder cannot be read or written."""


class CertificateError(EqsatError):
    """A certificate cannot be created or read, or does not prove what it states."""


class ProfileError(EqsatError):
    """A profile of kernel times cannot be read, or was measured on another machine."""
