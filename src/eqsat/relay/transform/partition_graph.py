"""PartitionGraph: annotated regions become functions of the module."""

from __future__ import annotations

import re
from collections.abc import Sequence

from eqsat.errors import ArgumentError, PassError
from eqsat.registry import get_global_func
from eqsat.relay.expr import Call, Expr, Function, GlobalVar, Tuple, TupleGetItem, Var
from eqsat.relay.infer import infer_module
from eqsat.relay.module import IRModule
from eqsat.relay.regions import AnnotatedRegion, AnnotatedRegionSet, describe, target_of
from eqsat.relay.transform.annotation import BEGIN, DEFAULT_TARGET, END, end, is_begin, is_end, needs_first
from eqsat.relay.transform.base import Pass, PassContext, PassInfo, optimizable
from eqsat.relay.transform.fold_constant import is_constant
from eqsat.relay.visitor import rebuild, rewrite_post_order, substitute


def PartitionGraph(mod_name: str | None = "default", bind_constants: bool = True) -> Pass:
    """Make each annotated region a function ``tvmgen_<mod_name>_<target>_<function>_<region>`` of the module.

    A function registered as ``relay.ext.<target>.optimize`` (see :mod:`eqsat.registry`) is given each region's
    function as ``main`` of a module and gives the module to use instead. Regions of target "default" stay
    where they are.

    Args:
        mod_name: part of the functions' names; None or "" leaves it out.
        bind_constants: whether constants that a region reads become part of its function.

    Raises:
        ArgumentError: ``mod_name`` is not ASCII.
        PassError: annotations that do not make regions, a region whose value is used without
            ``compiler_end``, or one that depends on its own result; nothing is changed then.
    """
    if not (mod_name or "").isascii():
        raise ArgumentError(f"mod_name must be ASCII: {mod_name!r}")
    prefix = f"tvmgen_{mod_name}" if mod_name else "tvmgen"

    def transform(mod: IRModule, context: PassContext) -> IRModule:
        mod = infer_module(mod)
        names = _Names(mod, prefix)
        result = mod.copy()
        for name, function in optimizable(mod):
            prepared = rewrite_post_order(rewrite_post_order(function, _flattened), _without_default)
            partitioner = _Partitioner(prepared, name, names, bind_constants)
            result[name] = partitioner.run()
            result.update(partitioner.functions)
        return infer_module(result)

    return Pass(transform, PassInfo(0, "PartitionGraph"))


def _flattened(old: Expr, new: Expr) -> Expr:
    """A region that gives a tuple gives its fields, one by one."""
    if is_end(new) and isinstance(new.args[0], Tuple):
        return new.args[0].with_children([end(field, target_of(new)) for field in new.args[0].fields])
    return new


def _without_default(old: Expr, new: Expr) -> Expr:
    return new.args[0] if (is_begin(new) or is_end(new)) and target_of(new) == DEFAULT_TARGET else new


class _Names:
    """Names for new functions of a module."""

    def __init__(self, mod: IRModule, prefix: str):
        self.prefix = prefix
        self.taken = {variable.name_hint for variable in mod.get_global_vars()}

    def fresh(self, name: str) -> str:
        """The name a function gets that region numbering calls ``name``."""
        plain = self._unused(name.replace(".", "_"))
        return self._unused(re.sub("[^A-Za-z0-9_]", "_", f"{self.prefix}_{plain}"))

    def _unused(self, name: str) -> str:
        unused, count = name, 0
        while unused in self.taken:
            count += 1
            unused = f"{name}_{count}"
        self.taken.add(unused)
        return unused


class _Partitioner:
    """Partitions one function; the functions made are in ``functions``."""

    def __init__(self, function: Expr, name: str, names: _Names, bind_constants: bool):
        self.function = function
        self.name = name
        self.names = names
        self.bind_constants = bind_constants
        self.regions = AnnotatedRegionSet(function, BEGIN, END)
        self.functions: dict[str | GlobalVar, Function] = {}
        self.new: dict[Expr, Expr] = {}
        self.inputs: dict[int, dict[Expr, tuple[Var, Expr]]] = {}
        self.outputs: dict[int, dict[Expr, Expr]] = {}
        self.entry_numbers: dict[Expr, int] = {}

    def run(self) -> Function:
        order = self._ordered()
        self._check_exits(order)
        for carved in self.regions:
            self.entry_numbers.update((entry, number) for number, entry in enumerate(carved.args))
        for node in order:
            region = self.regions.get_region(node)
            if region is not None and is_begin(node):
                self.new[node] = self._parameter(node, region)
            elif region is not None and is_end(node):
                self.new[node] = self._result(node, region)
            else:
                self.new[node] = rebuild(node, self.new)
        function = self.new[self.function]
        assert isinstance(function, Function)
        return function

    def _ordered(self) -> list[Expr]:
        """Post-order in which all results of a region come before its first end, and that before the others."""
        first_end: dict[int, Expr] = {}

        def needs(node: Expr) -> Sequence[Expr]:
            region = self.regions.get_region(node) if is_end(node) else None
            if region is None:
                return node.children()
            first = first_end.setdefault(region.id, node)
            others = [exit.args[0] for exit in region.rets] if node is first else [first]
            return [*node.children(), *others]

        return needs_first([self.function], needs, self._cycle)

    def _cycle(self, node: Expr) -> PassError:
        return PassError(
            f"function {self.name!r}: a region depends on its own result, a value of {describe(node)}: "
            "split the regions annotated around it"
        )

    def _check_exits(self, order: list[Expr]) -> None:
        for node in order:
            region = self.regions.get_region(node)
            for child in node.children():
                source = self.regions.get_region(child)
                if source is None or is_end(child) or (source is region and not is_begin(node)):
                    continue
                raise PassError(
                    f"function {self.name!r}: {describe(child)} is in a region of target {source.target!r} and is "
                    f"used by {describe(node)} outside of it without compiler_end"
                )

    def _parameter(self, entry: Call, region: AnnotatedRegion) -> Var:
        inputs = self.inputs.setdefault(region.id, {})
        source: Expr = entry
        while is_begin(source) or is_end(source):
            source = source.args[0]
        if source not in inputs:
            name = f"{region.target}_{region.id}_i{self.entry_numbers[entry]}"
            inputs[source] = (Var(name, entry.checked_type), self.new[entry.args[0]])
        return inputs[source][0]

    def _result(self, exit: Call, region: AnnotatedRegion) -> Expr:
        if region.id not in self.outputs:
            self.outputs[region.id] = self._carve(region)
        return self.outputs[region.id][exit.args[0]]

    def _carve(self, region: AnnotatedRegion) -> dict[Expr, Expr]:
        """Make the region's function; gives for each of its results what stands for it in the caller."""
        results = list(dict.fromkeys(exit.args[0] for exit in region.rets))
        body = self.new[results[0]] if len(results) == 1 else Tuple([self.new[result] for result in results])
        ret_type = results[0]._checked_type if len(results) == 1 else None
        params, args, bound = [], [], {}
        for param, arg in self.inputs.get(region.id, {}).values():
            if self.bind_constants and is_constant(arg):
                bound[param] = arg
            else:
                params.append(param)
                args.append(arg)
        function = Function(params, substitute(body, bound) if bound else body, ret_type)
        call = Call(self._add(function, region), args)
        if len(results) == 1:
            return {results[0]: call}
        return {result: TupleGetItem(call, index) for index, result in enumerate(results)}

    def _add(self, function: Function, region: AnnotatedRegion) -> GlobalVar:
        symbol = self.names.fresh(f"{region.target}_{self.name}_{region.id}")
        attrs = {"global_symbol": symbol, "Primitive": 1, "Compiler": region.target, "Inline": 1}
        variable = GlobalVar(symbol)
        self.functions[variable] = _optimized(function, region.target).with_attr(attrs)
        return variable


def _optimized(function: Function, target: str) -> Function:
    hook = f"relay.ext.{target}.optimize"
    optimize = get_global_func(hook, allow_missing=True)
    if optimize is None:
        return function
    result = optimize(infer_module(IRModule({"main": function})))
    if not isinstance(result, IRModule) or "main" not in result:
        raise PassError(f"{hook} must give a module with a function main, not {result!r}")
    return result["main"]
