"""The prelude: lists, options and trees with their functions, and arrays of tensors of varying shape."""

from __future__ import annotations

from functools import cache

from eqsat.errors import ArgumentError
from eqsat.relay.adt import Constructor
from eqsat.relay.expr import GlobalVar
from eqsat.relay.module import IRModule
from eqsat.relay.parser import parse
from eqsat.relay.standard import standard_module
from eqsat.relay.ty import GlobalTypeVar

_DTYPES = ("float32", "float16", "float64", "int32", "uint8", "int8", "int16", "uint16", "int64")
_RANKS = range(7)
_CONCATENATED = range(1, 5)
"""The ranks of tensors that ``tensor_concatenate`` takes."""


class Prelude:
    """Adds the prelude to a module, which is ``mod``.

    Each function on lists, options and trees is an attribute: ``prelude.map`` is the GlobalVar ``@map``. Tensors whose
    shapes are not known are values of the type ``tensor_<dtype>_t``, which has a constructor for each rank up to six,
    and a tensor array is a list of them.

    Args:
        mod: The module, by default a new one.

    Raises:
        ArgumentError: The module defines a type of the prelude in another way.
    """

    def __init__(self, mod: IRModule | None = None):
        self.mod = IRModule() if mod is None else mod
        self.mod.import_from_std("prelude.rly")
        for dtype in _DTYPES:
            self.mod.extend(_tensor_arrays(dtype))

    def __getattr__(self, name: str) -> GlobalVar:
        if name != "mod" and name in self.mod:
            return self.mod.get_global_var(name)
        raise AttributeError(f"the prelude has no function {name!r}")

    def get_name(self, canonical: str, dtype: str) -> str:
        """The name of a function, type or constructor for tensor arrays of ``dtype``, such as ``tensor_array_read``."""
        return f"tensor_{dtype}_t" if canonical == "tensor_t" else f"{canonical}_{dtype}"

    def get_global_var(self, canonical: str, dtype: str) -> GlobalVar:
        """The GlobalVar of a function for tensor arrays of ``dtype``."""
        return self.mod.get_global_var(self.get_name(canonical, dtype))

    def get_type(self, canonical: str, dtype: str) -> GlobalTypeVar:
        """The type of the tensors (``tensor_t``) in tensor arrays of ``dtype``."""
        return self.mod.get_global_type_var(self.get_name(canonical, dtype))

    def get_ctor(self, ty_name: str, canonical: str, dtype: str) -> Constructor:
        """The constructor of type ``ty_name`` for tensors of ``dtype``.

        Raises:
            ArgumentError: The type has no such constructor.
        """
        name = self.get_name(canonical, dtype)
        constructors = self.mod[GlobalTypeVar(ty_name)].constructors
        for constructor in constructors:
            if constructor.name_hint == name:
                return constructor
        raise ArgumentError(f"type {ty_name} has no constructor {name!r}; it has {[c.name_hint for c in constructors]}")

    def get_tensor_ctor(self, canonical: str, dtype: str) -> Constructor:
        """The constructor of tensors of ``dtype``: ``tensor_nil``, or ``tensor<rank>``."""
        return self.get_ctor(self.get_name("tensor_t", dtype), canonical, dtype)


@cache
def _tensor_arrays(dtype: str) -> IRModule:
    """Return the definitions for tensor arrays of ``dtype``."""
    made = [f"tensor{rank}_DTYPE{f'({_shaped(rank)})'}" for rank in _RANKS]
    takes = [_clause(rank, f"tensor{rank}_DTYPE(take(%t, %rows, axis=0))") for rank in _RANKS[1:]]
    raised = [_clause(rank, f"tensor{rank + 1}_DTYPE(expand_dims(%t, axis=0))") for rank in _RANKS[:-1]]
    joined = [
        _clause(rank, f"match? (%y) {{ tensor{rank}_DTYPE(%u) => tensor{rank}_DTYPE(concatenate((%t, %u))) }}")
        for rank in _CONCATENATED
    ]
    text = _TENSORS % {
        "made": _listed(made),
        "takes": _listed(takes),
        "raised": _listed(raised),
        "joined": _listed(joined),
    }
    text += "".join(_UNSTACK % {"rank": rank, "shaped": _shaped(rank), "row": rank - 1} for rank in _RANKS[1:])
    text = '#[version = "0.0.5"]\n' + text.replace("DTYPE", dtype)
    return parse(text, source_name=None, init_module=standard_module("prelude.rly"))


def _shaped(rank: int) -> str:
    return f"Tensor[({'?, ' * rank}), DTYPE]" if rank else "DTYPE"


def _clause(rank: int, result: str) -> str:
    return f"tensor{rank}_DTYPE(%t) => {result}"


def _listed(items: list[str]) -> str:
    return ",\n    ".join(items)


_TENSORS = """
type tensor_DTYPE_t {
    tensor_nil_DTYPE,
    %(made)s
}

/* The rows from %%lower up to, but without, %%upper. */
def @tensor_take_DTYPE(%%tensor: tensor_DTYPE_t, %%lower: int32, %%upper: int32) -> tensor_DTYPE_t {
  let %%rows = arange(%%lower, %%upper, 1, dtype="int32");
  match? (%%tensor) {
    %(takes)s
  }
}

/* The same tensor with a dimension of size one before the others. */
def @tensor_expand_dims_DTYPE(%%tensor: tensor_DTYPE_t) -> tensor_DTYPE_t {
  match? (%%tensor) {
    %(raised)s
  }
}

/* The rows of two tensors of one rank. */
def @tensor_concatenate_DTYPE(%%x: tensor_DTYPE_t, %%y: tensor_DTYPE_t) -> tensor_DTYPE_t {
  match? (%%x) {
    %(joined)s
  }
}

/* An array of %%n places. */
def @tensor_array_DTYPE(%%n: int32) -> List[tensor_DTYPE_t] {
  if (%%n == 0) {
    Nil
  } else {
    Cons(tensor_nil_DTYPE, @tensor_array_DTYPE(%%n - 1))
  }
}

def @tensor_array_read_DTYPE(%%array: List[tensor_DTYPE_t], %%n: int32) -> tensor_DTYPE_t {
  @nth(%%array, %%n)
}

def @tensor_array_write_DTYPE(
  %%array: List[tensor_DTYPE_t], %%n: int32, %%value: tensor_DTYPE_t
) -> List[tensor_DTYPE_t] {
  @update(%%array, %%n, %%value)
}

/* The array with each of %%values, from place %%at on, in the place that %%indices tells. */
def @tensor_array_scatter_helper_DTYPE(
  %%array: List[tensor_DTYPE_t], %%at: int32, %%limit: int32, %%indices: Tensor[(?), int32],
  %%values: List[tensor_DTYPE_t]
) -> List[tensor_DTYPE_t] {
  if (%%at == %%limit) {
    %%array
  } else {
    let %%value = @tensor_array_read_DTYPE(%%values, %%at);
    let %%written = @tensor_array_write_DTYPE(%%array, take(%%indices, %%at), %%value);
    @tensor_array_scatter_helper_DTYPE(%%written, %%at + 1, %%limit, %%indices, %%values)
  }
}

def @tensor_array_scatter_DTYPE(
  %%array: List[tensor_DTYPE_t], %%indices: Tensor[(?), int32], %%values: List[tensor_DTYPE_t]
) -> List[tensor_DTYPE_t] {
  @tensor_array_scatter_helper_DTYPE(%%array, 0, take(shape_of(%%indices), 0), %%indices, %%values)
}

/* The array with the parts of %%value, of as many rows as %%lengths says, in its places from %%at on. */
def @ta_split_helper_DTYPE(
  %%array: List[tensor_DTYPE_t], %%value: tensor_DTYPE_t, %%offset: int32, %%at: int32, %%limit: int32,
  %%lengths: Tensor[(?), int32]
) -> List[tensor_DTYPE_t] {
  if (%%at == %%limit) {
    %%array
  } else {
    let %%end = %%offset + take(%%lengths, %%at);
    let %%rest = @ta_split_helper_DTYPE(%%array, %%value, %%end, %%at + 1, %%limit, %%lengths);
    @tensor_array_write_DTYPE(%%rest, %%at, @tensor_take_DTYPE(%%value, %%offset, %%end))
  }
}

def @tensor_array_split_DTYPE(
  %%array: List[tensor_DTYPE_t], %%value: tensor_DTYPE_t, %%lengths: Tensor[(?), int32]
) -> List[tensor_DTYPE_t] {
  @ta_split_helper_DTYPE(%%array, %%value, 0, 0, take(shape_of(%%lengths), 0), %%lengths)
}

def @tensor_array_concat_DTYPE(%%array: List[tensor_DTYPE_t]) -> tensor_DTYPE_t {
  match (%%array) {
    Nil => tensor_nil_DTYPE,
    Cons(%%last, Nil) => %%last,
    Cons(%%first, %%rest) => @tensor_concatenate_DTYPE(%%first, @tensor_array_concat_DTYPE(%%rest)),
  }
}

def @tensor_array_stack_DTYPE(%%array: List[tensor_DTYPE_t]) -> tensor_DTYPE_t {
  let %%rows = @map(@tensor_expand_dims_DTYPE, %%array);
  @foldl(@tensor_concatenate_DTYPE, @hd(%%rows), @tl(%%rows))
}
"""
"""The definitions that are the same for all ranks; ``DTYPE`` stands for the dtype."""

_UNSTACK = """
def @tensor_array_unstack_tensor%(rank)d_helper_DTYPE(
  %%at: int32, %%limit: int32, %%tensor: %(shaped)s
) -> List[tensor_DTYPE_t] {
  if (%%at == %%limit) {
    Nil
  } else {
    let %%rest = @tensor_array_unstack_tensor%(rank)d_helper_DTYPE(%%at + 1, %%limit, %%tensor);
    Cons(tensor%(row)d_DTYPE(take(%%tensor, %%at, axis=0)), %%rest)
  }
}

def @tensor_array_unstack_tensor%(rank)d_DTYPE(%%tensor: %(shaped)s) -> List[tensor_DTYPE_t] {
  @tensor_array_unstack_tensor%(rank)d_helper_DTYPE(0, take(shape_of(%%tensor), 0), %%tensor)
}
"""
"""The array of the rows of a tensor."""
