"""Attributes of operators that are set for a while."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from eqsat.relay.expr import Op


class TempOpAttr:
    """A context in which an attribute of an operator has another value.

    Args:
        op_name: The operator's name.
        attr_key: The attribute's name, such as ``"TOpPattern"``.
        attr_value: Its value in the context.
    """

    def __init__(self, op_name: str, attr_key: str, attr_value: Any):
        self._op, self._key, self._value = Op.get(op_name), attr_key, attr_value
        self._before: dict[str, Any] = {}

    def __enter__(self) -> TempOpAttr:
        self._before = dict(self._op.attr_map)
        self._op.set_attr(self._key, self._value)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._op.reset_attr(self._key)
        if self._key in self._before:
            self._op.set_attr(self._key, self._before[self._key])
