"""Single values in the text form, both ways: names, strings, numbers. Nothing is lost on the way."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from eqsat.brief import visible
from eqsat.nd import NDArray
from eqsat.relay.ty import IntImm

NAME = r"(?:[A-Za-z_]|/(?=\w))(?:\w|/(?=\w))*"
"""An identifier; a slash needs a word character after it, or it would begin a comment."""

NUMBER = r"(?:(?:inf|nan)f(?:16|32|64)?\b|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?:[fi]\d*)?)"
"""A number without its sign."""

KEY = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
"""The name of an operator or attribute."""

_PLAIN_NAME = re.compile(NAME, re.ASCII)
_PLAIN_KEY = re.compile(KEY, re.ASCII)
_SUFFIXES = {
    "int32": "",
    "int64": "i64",
    "int16": "i16",
    "float32": "f",
    "float64": "f64",
    "float16": "f16",
}
_DTYPES = {**{suffix: dtype for dtype, suffix in _SUFFIXES.items()}, "i": "int32", "i32": "int32", "f32": "float32"}
_NUMBER = re.compile(r"(-?)(inf|nan|[\d.]+(?:[eE][+-]?\d+)?)((?:[fi]\d*)?)")
_INT32 = range(-(2**31), 2**31)


def name_text(name: str) -> str:
    """``name`` as it follows ``%`` or ``@``: as it is, or quoted when it is not an identifier."""
    return name if _PLAIN_NAME.fullmatch(name) else string_text(name)


def key_text(key: str) -> str:
    """An attribute's name: as it is, or quoted when it is not made of identifiers and dots."""
    return key if _PLAIN_KEY.fullmatch(key) else string_text(key)


def string_text(value: str) -> str:
    """``value`` in double quotes, with JSON's escapes."""
    return visible(json.dumps(value, ensure_ascii=False))


def comment_text(text: str) -> str:
    """``text`` as it stands in a comment, which it neither ends nor begins another in."""
    return visible(text).replace("*/", "* /").replace("/*", "/ *")


def read_string(text: str) -> str:
    """The string that ``text`` quotes; backslashes that escape nothing stand for themselves."""
    try:
        return str(json.loads(text, strict=False))
    except json.JSONDecodeError:
        return text[1:-1]


def scalar_text(data: NDArray) -> str | None:
    """The literal of a rank-0 array, None when no literal reads back as the very same bytes."""
    if data.shape or (data.dtype not in _SUFFIXES and data.dtype != "bool"):
        return None
    value = data.numpy()[()]
    if data.dtype == "bool":
        return str(bool(value))
    if value.dtype.kind == "i":
        return f"{value}{_SUFFIXES[data.dtype]}"
    for digits in (f"{float(value):.6g}", str(value)):
        text = digits + _SUFFIXES[data.dtype]
        if read_number(text).tobytes() == value.tobytes():
            return text
    return None


def value_text(value: Any) -> str | None:
    """The literal of an attribute value that is not a sequence, None when it has none."""
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        return string_text(value)
    if isinstance(value, float):
        short = f"{value:.6g}"
        return f"{short if float(short) == value else repr(value)}f"
    if type(value) is IntImm:
        suffix = _SUFFIXES.get(value.dtype)
        return str(bool(value)) if value.dtype == "bool" else None if suffix is None else f"{int(value)}{suffix}"
    return str(value) if isinstance(value, int) else None


def read_number(text: str) -> np.generic:
    """The constant that a number stands for; raises ValueError with what is wrong with it.

    An integer without suffix is int32, int64 when too large for that. A float has a suffix.
    """
    sign, digits, dtype = _split(text)
    if dtype == "int32" and int(sign + digits) not in _INT32 and "i" not in text:
        dtype = "int64"
    whole = dtype.startswith("int")
    largest = np.iinfo(dtype).max if whole else _largest_float(dtype)
    size = int(digits) - (sign == "-") if whole else float(digits)
    if digits not in ("inf", "nan") and size > largest:
        raise ValueError(f"{text} does not fit {dtype}")
    value: np.generic = np.dtype(dtype).type(sign + digits)
    return value


def _largest_float(dtype: str) -> float:
    """The largest float of a dtype, or what it is written as, which may be rounded up."""
    largest = np.finfo(dtype).max
    return max(float(largest), float(str(largest)))


def read_value(text: str) -> int | float:
    """The attribute value that a number stands for: a Python number, an IntImm with an ``i`` suffix."""
    sign, digits, dtype = _split(text)
    if dtype.startswith("float"):
        return float(sign + digits)
    return int(sign + digits) if text[-3:] not in ("i16", "i64") else IntImm(dtype, int(sign + digits))


def _split(text: str) -> tuple[str, str, str]:
    match = _NUMBER.fullmatch(text)
    dtype = _DTYPES.get(match[3]) if match else None
    if match is None or dtype is None:
        raise ValueError(f"{text} has no known type suffix (i16, i32, i64, f, f16, f32, f64)")
    if dtype.startswith("int") and not match[2].isdigit():
        raise ValueError(f"{text} is a float without the suffix f: write {text}f")
    return match[1], match[2], dtype
