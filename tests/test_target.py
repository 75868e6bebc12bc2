"""Targets, registered functions and what a build knows of itself, under the names of TVM."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

import eqsat
from eqsat import registry
from eqsat.errors import ArgumentError
from eqsat.relay import _ffi_api
from eqsat.target import Target, cuda, register_target_kind


def test_a_target_is_current_inside_with() -> None:
    outer, inner = Target("llvm -mcpu=core-avx2"), Target("tensorrt")
    assert Target.current() is None
    with outer:
        with inner as entered:
            assert entered is inner
            assert Target.current() is inner
        assert Target.current() is outer
    with pytest.raises(ArgumentError, match="no target is current"):
        Target.current(allow_none=False)


def test_options_have_the_defaults_of_their_kind() -> None:
    target = Target("tensorrt")
    assert target.kind.name == str(target.kind) == "tensorrt"
    assert target.attrs["tensorrt_version"] == ()
    assert target.attrs["use_implicit_batch"] is True
    assert target.attrs["use_fp16"] is False
    assert Target("cutlass").attrs["sm"] == 80


@pytest.mark.parametrize(
    "written",
    [
        "tensorrt -use_fp16=1 -tensorrt_version=7,2,1",
        "tensorrt -use_fp16 -tensorrt_version=7,2,1",
        {"kind": "tensorrt", "use_fp16": True, "tensorrt_version": [7, 2, 1]},
    ],
)
def test_options_are_given_as_text_or_as_a_mapping(written: str | dict[str, object]) -> None:
    target = Target(written)
    assert (target.attrs["use_fp16"], target.attrs["tensorrt_version"]) == (True, (7, 2, 1))
    assert Target(str(target)) == Target(target) == target
    assert hash(Target(target)) == hash(target)
    assert target != Target("tensorrt")


def test_a_target_has_keys_and_a_host() -> None:
    target = Target(cuda(arch="sm_80"), host="llvm")
    assert target.keys == ("cuda", "gpu")
    assert target.host == Target("llvm")
    assert Target(target).host == Target("llvm")
    assert Target("llvm -keys=arm_cpu,cpu").keys == ("arm_cpu", "cpu")
    assert repr(cuda()) == "Target('cuda -model=unknown')"


def test_kinds_are_listed_and_added() -> None:
    assert "cmsis-nn" in Target.list_kinds()
    register_target_kind("my-npu", {"cores": (int, 2)})
    assert Target("my-npu -cores=4").attrs["cores"] == 4


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("gpu9000", "no kind of targets 'gpu9000'; known are"),
        ("", "no kind of targets ''"),
        ("cuda sm_80", "'sm_80' is no option; options are written -name=value"),
        ("cuda -use_fp16=1", "kind 'cuda' have no option 'use_fp16'"),
        ("tensorrt -use_fp16=maybe", "takes true or false, not 'maybe'"),
        ({"kind": "tensorrt", "tensorrt_version": 7}, "takes a list of integers, not 7"),
        ("cutlass -sm=eighty", "takes an integer, not 'eighty'"),
        (7, "not as 7"),
    ],
)
def test_what_is_no_target_is_refused(written: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Target(written)


def test_functions_of_a_namespace_become_functions_of_a_module() -> None:
    module = sys.modules["my_api"] = ModuleType("my_api")
    eqsat.register_func("relay.ext.mine.double", lambda value: 2 * value)
    eqsat.register_func("relay.ext.mine.inner.triple", lambda value: 3 * value)
    try:
        eqsat._ffi._init_api("relay.ext.mine", "my_api")
        assert module.double(4) == 8
        assert not hasattr(module, "triple")
    finally:
        registry.remove_global_func("relay.ext.mine.double")
        registry.remove_global_func("relay.ext.mine.inner.triple")
        del sys.modules["my_api"]


def test_a_library_may_answer_for_a_pattern_table() -> None:
    with pytest.raises(AttributeError, match=r"registered as 'relay.ir.optimal_layout'"):
        _ffi_api.optimal_layout  # noqa: B018
    eqsat.register_func("relay.ir.optimal_layout", lambda: "NCHW8c")
    try:
        assert _ffi_api.optimal_layout() == "NCHW8c"
    finally:
        registry.remove_global_func("relay.ir.optimal_layout")


def test_a_build_knows_its_version() -> None:
    assert set(eqsat.support.libinfo()) == {"EQSAT_VERSION"}


def test_the_error_to_catch_and_text_have_their_old_names() -> None:
    from eqsat._ffi.base import TVMError, py_str

    assert TVMError is eqsat.TVMError
    assert py_str(b"sm_80") == "sm_80"
