"""A module: named functions that may call each other through GlobalVars, and definitions of types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, overload

from eqsat.brief import listed, one_line
from eqsat.errors import ArgumentError
from eqsat.registry import get_global_func
from eqsat.relay.adt import Constructor, TypeData
from eqsat.relay.analysis import free_vars
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Expr, Function, GlobalVar, expression_hint
from eqsat.relay.printable import Printable
from eqsat.relay.ty import GlobalTypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Table(dict[_Key, _Value]):
    """A dictionary whose ``items()`` is a list, as for TVM's maps: ``module.functions.items()[0]``."""

    def items(self) -> list[tuple[_Key, _Value]]:  # type: ignore[override]
        """The pairs of key and value."""
        return list(super().items())


class IRModule(Printable):
    """A set of named functions and of named algebraic types.

    Args:
        functions: Name or GlobalVar -> function.
        type_definitions: GlobalTypeVar -> definition.
        attrs: Attributes of the whole module.
    """

    def __init__(
        self,
        functions: Mapping[Any, Function] | None = None,
        type_definitions: Mapping[GlobalTypeVar, TypeData] | None = None,
        attrs: Mapping[str, object] | None = None,
    ):
        self.attrs = attrs if isinstance(attrs, Attrs) else Attrs(attrs)
        self._globals: dict[str, GlobalVar] = {}
        self._functions: dict[str, Function] = {}
        self._types: dict[GlobalTypeVar, TypeData] = {}
        for header, definition in (type_definitions or {}).items():
            self[header] = definition
        for name, function in (functions or {}).items():
            self[name] = function

    def __repr__(self) -> str:
        names = [f"@{name}" for name in self._functions] + [f"type {header}" for header in self._types]
        return one_line(f"IRModule({listed(names)})")

    @staticmethod
    def from_expr(expr: Expr, functions: Mapping[Any, Function] | None = None) -> IRModule:
        """Return a module whose function ``main`` is an expression.

        Args:
            expr: A function, or an expression that becomes the body of a function of its free variables.
            functions: Other functions of the module.

        Raises:
            ArgumentError: ``expr`` is not an expression.
        """
        if not isinstance(expr, Expr):
            raise ArgumentError(f"a module is made of an expression, not {expr!r}{expression_hint(expr)}")
        module = IRModule(functions)
        module["main"] = expr if isinstance(expr, Function) else Function(free_vars(expr), expr)
        return module

    @property
    def functions(self) -> Table[GlobalVar, Function]:
        """A copy of the table GlobalVar -> function, in the order in which they were added."""
        return Table((self._globals[name], function) for name, function in self._functions.items())

    @property
    def type_definitions(self) -> Table[GlobalTypeVar, TypeData]:
        """A copy of the table GlobalTypeVar -> definition, in the order in which they were added."""
        return Table(self._types)

    def get_global_type_var(self, name: str) -> GlobalTypeVar:
        """The GlobalTypeVar of type ``name``."""
        return self[GlobalTypeVar(name)].header

    def get_type(self, name: str) -> tuple[GlobalTypeVar | Constructor, ...]:
        """The GlobalTypeVar of type ``name``, followed by its constructors."""
        definition = self[GlobalTypeVar(name)]
        return (definition.header, *definition.constructors)

    def get_global_vars(self) -> list[GlobalVar]:
        """The GlobalVars of all functions, sorted by name."""
        return [self._globals[name] for name in sorted(self._globals)]

    def get_global_var(self, name: str) -> GlobalVar:
        """The GlobalVar of function ``name``."""
        return self._globals[self._known(name)]

    def __contains__(self, name: object) -> bool:
        if isinstance(name, GlobalTypeVar):
            return name in self._types
        return _name(name) in self._functions

    @overload
    def __getitem__(self, name: str | GlobalVar) -> Function: ...
    @overload
    def __getitem__(self, name: GlobalTypeVar) -> TypeData: ...
    def __getitem__(self, name: str | GlobalVar | GlobalTypeVar) -> Function | TypeData:
        if isinstance(name, GlobalTypeVar):
            if name not in self._types:
                raise ArgumentError(f"the module has no type {name}; it has {list(map(str, self._types))}")
            return self._types[name]
        return self._functions[self._known(name)]

    def update_func(self, name: GlobalVar, function: Function) -> None:
        """Set the function of a global variable."""
        self[name] = function

    def _add(self, var: str | GlobalVar | GlobalTypeVar, val: Function | TypeData, update: bool = True) -> None:
        """Set a function or type, as TVM's method of this name does.

        Raises:
            ArgumentError: There is one of that name, and ``update`` is false.
        """
        if not update and var in self:
            raise ArgumentError(f"the module has {var!s} already; pass update=True to replace it")
        self[var] = val

    def __setitem__(self, name: str | GlobalVar | GlobalTypeVar, function: Function | TypeData) -> None:
        if isinstance(name, GlobalTypeVar):
            if not isinstance(function, TypeData) or function.header != name:
                raise ArgumentError(f"type {name}: a module needs its TypeData, not {function!r}")
            self._types[name] = function
            return
        if not isinstance(function, Function):
            raise ArgumentError(f"{_name(name)!r}: a module holds functions, not {function!r}")
        key = _name(name)
        if key not in self._globals:
            self._globals[key] = name if isinstance(name, GlobalVar) else GlobalVar(key)
        self._functions[key] = function

    def __delitem__(self, name: str | GlobalVar) -> None:
        key = self._known(name)
        del self._functions[key], self._globals[key]

    def update(self, other: IRModule | Mapping[str | GlobalVar, Function]) -> None:
        """Add all functions of ``other``, and its types if it is a module; they replace those of the same names."""
        if isinstance(other, IRModule):
            self._types.update(other._types)
        functions = other.functions if isinstance(other, IRModule) else other
        for name, function in functions.items():
            self[name] = function

    def extend(self, library: IRModule) -> None:
        """Add the functions and types of ``library`` that the module does not have. Existing functions are kept.

        Raises:
            ArgumentError: The module has another type of the same name.
        """
        for header, definition in library._types.items():
            if self._types.setdefault(header, definition) is not definition:
                raise ArgumentError(f"the module has a type {header} of its own; rename it to add the library's")
        for name, function in library.functions.items():
            if name not in self:
                self[name] = function

    def import_from_std(self, file_to_import: str) -> IRModule:
        """Add the definitions of a file of the standard library: lists and more are in ``"prelude.rly"``.

        Returns:
            The module with its types inferred.

        Raises:
            ArgumentError: There is no such file, or the module defines one of its types in another way.
        """
        read = get_global_func("ir.Module_ImportFromStd")
        assert read is not None
        typed: IRModule = read(self, file_to_import)
        return typed

    def same_as(self, other: object) -> bool:
        """Whether ``other`` is the same object."""
        return self is other

    def get_attr(self, attr_key: str) -> Any:
        """Return an attribute of the module; None if it has no such attribute."""
        return self.attrs.get(attr_key)

    def with_attr(self, attr_key: str, attr_value: Any) -> IRModule:
        """Return a copy with an attribute set."""
        return self.with_attrs({attr_key: attr_value})

    def with_attrs(self, attr_map: Mapping[str, Any]) -> IRModule:
        """Return a copy with all attributes of a mapping set."""
        return IRModule(self.functions, self._types, {**self.attrs, **attr_map})

    def without_attr(self, attr_key: str) -> IRModule:
        """Return a copy without an attribute."""
        kept = {key: value for key, value in self.attrs.items() if key != attr_key}
        return IRModule(self.functions, self._types, kept)

    def copy(self) -> IRModule:
        """Return a copy of the module, which can be changed without changing this one."""
        return IRModule(self.functions, self._types, self.attrs)

    def __copy__(self) -> IRModule:
        return self.copy()

    def _known(self, name: str | GlobalVar) -> str:
        key = _name(name)
        if key not in self._functions:
            raise ArgumentError(f"the module has no function {key!r}; it has {sorted(self._functions)}")
        return key


def _name(name: object) -> str:
    if isinstance(name, GlobalVar):
        return name.name_hint
    if isinstance(name, str):
        return name
    raise ArgumentError(f"a function is named by a string or GlobalVar, not {name!r}")
