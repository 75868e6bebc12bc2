"""Reading and writing model files."""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import tempfile
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from eqsat.errors import ModelError
from eqsat.files import scratch_folder
from eqsat.onnx import from_bytes, load, run, save, to_bytes
from eqsat.onnx.files import from_proto
from eqsat.rules import sets

from .models import conv_batch_norm, parsed, with_weights


def weighty() -> onnx.ModelProto:
    """A model with one weight of 4 kB."""
    return with_weights(parsed("(float[1,32] x) => (float[1,32] y) { y = MatMul (x, w) }"), w=(32, 32))


def written(path: Path, proto: onnx.ModelProto) -> Path:
    path.write_bytes(proto.SerializeToString())
    return path


def external(folder: Path) -> Path:
    """A model file whose weight is in another file beside it."""
    path = folder / "model.onnx"
    onnx.save(weighty(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


# ---- reading


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot read .*none\.onnx: No such file"):
        load(tmp_path / "none.onnx")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot read .*: Is a directory"):
        load(tmp_path)


@pytest.mark.parametrize("data", [b"", b"hello", b"\x89PNG\r\n\x1a\n" + bytes(100), bytes(1000)])
def test_what_is_no_model_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(data)
    with pytest.raises(ModelError, match=r"picture\.png is not an ONNX model, or is truncated"):
        load(path)


def test_a_model_cut_off_anywhere_is_refused_or_read() -> None:
    data = conv_batch_norm().SerializeToString()
    refused = 0
    for length in range(0, len(data), 7):
        try:
            from_bytes(data[:length])
        except ModelError:
            refused += 1
    assert refused > len(data) // 7 * 0.9


def test_sparse_initializers_are_read_as_dense_ones() -> None:
    proto = parsed("(float[2] x) => (float[2] y) { y = Add (x, w) }")
    values = onnx.numpy_helper.from_array(onnx.numpy_helper.np.array([3.0], "f4"), "w")
    indices = onnx.numpy_helper.from_array(onnx.numpy_helper.np.array([1], "i8"), "at")
    proto.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, indices, [2]))
    assert from_proto(proto).graph.initializers["w"].const_value.numpy().tolist() == [0, 3]
    assert not proto.graph.initializer, "the given model is not changed"


# ---- external files


def test_weights_in_another_file_stay_there_until_they_are_asked_for(tmp_path: Path) -> None:
    model = load(external(tmp_path))
    tensor = model.graph.initializers["w"].const_value
    assert isinstance(tensor, ir.ExternalTensor)
    assert tensor.raw is None, "nothing is mapped yet"
    assert tensor.numpy().shape == (32, 32)


def mapped(path: Path) -> int:
    """Bytes of a file that this process maps, as far as the system tells."""
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    ranges = [line.split()[0].split("-") for line in lines if line.endswith(str(path))]
    return sum(int(end, 16) - int(start, 16) for start, end in ranges)


def test_weights_are_never_in_memory_unless_they_are_computed_with(tmp_path: Path) -> None:
    """Allocations while a model of 128 MB is read, optimized and written, and what is mapped: less than an eighth."""
    size, count = 1024, 32
    body = "".join(f"m{i} = MatMul (h{i}, w{i}) r{i} = Relu (m{i}) h{i + 1} = Add (r{i}, zero) " for i in range(count))
    body = body.replace("h0,", "x,").replace(f"h{count} =", "y =")
    proto = parsed(f"(float[1,{size}] x) => (float[1,{size}] y) <float zero = {{0.0}}> {{ {body} }}")
    with open(tmp_path / "weights.bin", "wb") as file:
        for index in range(count):
            tensor = proto.graph.initializer.add(name=f"w{index}", data_type=onnx.TensorProto.FLOAT)
            tensor.dims.extend([size, size])
            tensor.data_location = onnx.TensorProto.EXTERNAL
            nbytes = 4 * size * size
            place = {"location": "weights.bin", "offset": str(index * nbytes), "length": str(nbytes)}
            tensor.external_data.extend(onnx.StringStringEntryProto(key=key, value=place[key]) for key in place)
            file.seek(index * nbytes)
            file.write(bytes([index]))
        file.truncate(count * nbytes)
    path = written(tmp_path / "model.onnx", proto)
    run(from_proto(conv_batch_norm()))  # what is imported on first use
    mapped_bytes = []
    tracemalloc.start()
    after = run(load(path), on_iteration=lambda report: mapped_bytes.append(mapped(tmp_path / "weights.bin"))).after
    mapped_bytes.append(mapped(tmp_path / "weights.bin"))
    save(after, tmp_path / "after.onnx")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(after.graph) == 2 * count
    assert max(mapped_bytes) < count * nbytes / 8
    assert peak < count * nbytes / 8
    assert (tmp_path / "after.onnx.data").stat().st_size >= count * nbytes


def large() -> onnx.ModelProto:
    """A model with a weight that is written by itself, one that is not, and all that may be said of both."""
    proto = with_weights(
        parsed("(float[1,600] x) => (float[1,600] y) { m = MatMul (x, w) y = Add (m, b) }"), w=(600, 600), b=(600,)
    )
    proto.doc_string, proto.producer_name = "about it", "a test"
    for tensor in proto.graph.initializer:
        tensor.doc_string = f"about {tensor.name}"
        tensor.metadata_props.add(key="of", value=tensor.name)
    return proto


def test_what_is_written_weight_by_weight_is_the_model(tmp_path: Path) -> None:
    proto = large()
    save(from_proto(proto), tmp_path / "out.onnx")
    found = onnx.load(tmp_path / "out.onnx")
    onnx.checker.check_model(found, full_check=True)
    weights = {tensor.name: tensor for tensor in found.graph.initializer}
    assert list(weights) == ["b", "w"], "large ones last"
    assert weights["w"] == next(tensor for tensor in proto.graph.initializer if tensor.name == "w")
    expected = onnx.ModelProto.FromString(to_bytes(from_proto(proto)))
    for each in (found, expected):
        del each.graph.initializer[:]
    assert found == expected


def test_a_large_weight_has_the_name_of_its_value(tmp_path: Path) -> None:
    model = from_proto(large())
    weight = model.graph.initializers["w"]
    weight.const_value = ir.Tensor(2 * weight.const_value.numpy())
    save(model, tmp_path / "out.onnx")
    assert sorted(tensor.name for tensor in onnx.load(tmp_path / "out.onnx").graph.initializer) == ["b", "w"]


def test_weights_are_written_one_after_the_other(tmp_path: Path) -> None:
    """Allocations while a model of eight weights of 4 MB is written: less than two of them."""
    names = [f"w{index}" for index in range(8)]
    body = " ".join(f"y{index} = MatMul (x, w{index})" for index in range(8))
    outputs = ", ".join(f"float[1,1024] y{index}" for index in range(8))
    proto = parsed(f"(float[1,1024] x) => ({outputs}) {{ {body} }}")
    model = from_proto(with_weights(proto, **dict.fromkeys(names, (1024, 1024))))
    tracemalloc.start()
    save(model, tmp_path / "out.onnx")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * 4 * 1024 * 1024
    assert (tmp_path / "out.onnx").stat().st_size > 8 * 4 * 1024 * 1024


def test_a_missing_external_file_is_named(tmp_path: Path) -> None:
    path = external(tmp_path)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(ModelError, match=r"stores tensor 'w' in 'weights\.bin', which cannot be read: No such file"):
        load(path)


def test_an_external_file_that_is_too_short_is_told(tmp_path: Path) -> None:
    path = external(tmp_path)
    (tmp_path / "weights.bin").write_bytes(bytes(100))
    with pytest.raises(ModelError, match="has 100 bytes where 4096 are needed"):
        load(path)


def test_an_external_file_outside_the_folder_is_refused(tmp_path: Path) -> None:
    path = external(tmp_path)
    (tmp_path / "inner").mkdir()
    data = path.read_bytes().replace(b"weights.bin", b"../weights.")
    (tmp_path / "weights.").write_bytes(bytes(4096))
    (tmp_path / "inner" / "model.onnx").write_bytes(data)
    with pytest.raises(ModelError, match="outside the model's folder"):
        load(tmp_path / "inner" / "model.onnx")


def test_external_weights_go_beside_the_copy(tmp_path: Path) -> None:
    save(load(external(tmp_path)), tmp_path / "copy.onnx")
    assert sorted(os.listdir(tmp_path)) == ["copy.onnx", "copy.onnx.data", "model.onnx", "weights.bin"]
    copy = onnx.load(tmp_path / "copy.onnx")
    assert copy.graph.initializer[0].raw_data == weighty().graph.initializer[0].raw_data


def test_an_external_weight_that_is_a_result_goes_with_the_copy(tmp_path: Path) -> None:
    proto = with_weights(
        parsed("(float[2] x) => (float[64,64] y, float[2] z) { y = Identity (w) z = Relu (x) }"), w=(64, 64)
    )
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "elsewhere").mkdir()
    save(run(load(tmp_path / "m.onnx")).after, tmp_path / "elsewhere" / "out.onnx")
    after, before = (onnx.load(tmp_path / path).graph.initializer for path in ("elsewhere/out.onnx", "m.onnx"))
    assert after == before


HELD_BY_A_NODE = {
    "another's node": ("y = zz.Magic (x)", ""),
    "a constant that is a result": ("y = Constant ()", ""),
    "a function": ("y = zz.f (x)", '<domain: "zz", opset_import: ["": 17]> f (u) => (v) { v = Constant () }'),
}


@pytest.mark.parametrize("held_by", HELD_BY_A_NODE)
def test_external_data_of_an_attribute_is_in_the_copy(held_by: str, tmp_path: Path) -> None:
    node, function = HELD_BY_A_NODE[held_by]
    proto = parsed(f"(float[2] x) => (float[2] y) {{ {node} }}", domains=', "zz": 1', functions=function)
    tensor = onnx.TensorProto(data_type=onnx.TensorProto.FLOAT, dims=[2], data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="data.bin")
    holder = proto.functions[0].node[0] if function else proto.graph.node[0]
    holder.attribute.append(helper.make_attribute("value", tensor))
    (tmp_path / "data.bin").write_bytes(np.asarray([3, 4], "f4").tobytes())
    after = onnx.load_from_string(to_bytes(run(load(written(tmp_path / "m.onnx", proto))).after))
    (attribute,) = (after.functions[0] if function else after.graph).node[0].attribute
    assert numpy_helper.to_array(attribute.t).tolist() == [3, 4]


def test_a_model_with_external_weights_may_be_written_over_itself(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(weighty(), path, save_as_external_data=True, location="model.onnx.data", size_threshold=0)
    save(load(path), path)
    save(load(path), path)
    assert onnx.load(path).graph.initializer[0].raw_data == weighty().graph.initializer[0].raw_data


def test_bytes_hold_external_weights(tmp_path: Path) -> None:
    whole = onnx.load_from_string(to_bytes(load(external(tmp_path))))
    assert whole.graph.initializer[0].raw_data == weighty().graph.initializer[0].raw_data


def test_small_external_weights_that_rules_have_read_are_written(tmp_path: Path) -> None:
    """The smallest go into the model, though constants of the graph still show what is in their file."""
    proto = parsed("(float[2] x) => (float[2] y) { a = Mul (x, w) y = Add (a, w) }")
    proto.graph.initializer.append(numpy_helper.from_array(np.asarray([1.0, 2.0], np.float32), "w"))
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    done = run(load(path), [sets["algebra"], sets["fold"]])
    whole = onnx.load_from_string(to_bytes(done.after))
    save(done.after, tmp_path / "after.onnx")
    assert sorted(os.listdir(tmp_path)) == ["after.onnx", "model.onnx", "weights.bin"]
    for after in (whole, onnx.load(tmp_path / "after.onnx")):
        assert numpy_helper.to_array(after.graph.initializer[0]).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ({"location": ""}, "which is no file"),
        ({"location": "folder"}, "which is no file"),
        ({"location": "a\0b"}, "which cannot be read"),
        ({"location": "w.bin", "length": "4"}, "4 bytes where its shape needs 8"),
        ({"location": "w.bin", "offset": "12"}, "has 16 bytes where 20 are needed"),
        ({"location": "w.bin", "offset": "-8"}, "must be non-negative"),
        ({"location": "w.bin", "offset": "first"}, "invalid literal"),
    ],
)
@pytest.mark.parametrize("holder", ["initializer", "attribute", "attributes", "sparse", "function"])
def test_external_data_that_is_not_there_is_refused(
    tmp_path: Path, place: dict[str, str], reason: str, holder: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "w.bin").write_bytes(bytes(16))
    with pytest.raises(ModelError, match=reason):
        load(written(tmp_path / "model.onnx", with_external(holder, place)))


@pytest.mark.parametrize("holder", ["initializer", "attribute", "attributes", "sparse", "function"])
def test_external_data_outside_the_folder_is_refused_wherever_it_is_held(tmp_path: Path, holder: str) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "w.bin").write_bytes(bytes(16))
    path = written(tmp_path / "inner" / "model.onnx", with_external(holder, {"location": "../w.bin"}))
    with pytest.raises(ModelError, match="outside the model's folder"):
        load(path)


def with_external(holder: str, place: dict[str, str]) -> onnx.ModelProto:
    """A model that adds a tensor of two elements, whose data is at a place in another file."""
    tensor = onnx.TensorProto(
        name="w", data_type=onnx.TensorProto.FLOAT, data_location=onnx.TensorProto.EXTERNAL, dims=[2]
    )
    tensor.external_data.extend(onnx.StringStringEntryProto(key=key, value=place[key]) for key in place)
    if holder == "function":
        proto = onnx.parser.parse_model("""
            <ir_version: 8, opset_import: ["" : 17, "local" : 1]>
            g (bool c, float[2] x) => (float[2] y) { y = local.f (c, x) }
            <domain: "local", opset_import: ["" : 17]> f (c, a) => (b) {
                b = If (c) <then_branch = t () => (float[2] p) { p = Add (a, w) },
                            else_branch = e () => (float[2] q) { q = Abs (a) }>
            }
        """)
        proto.functions[0].node[0].attribute[0].g.initializer.append(tensor)
        return proto
    proto = parsed("(float[2] x) => (float[2] y) { y = Add (x, w) }")
    if holder == "initializer":
        proto.graph.initializer.append(tensor)
    elif holder == "attribute":
        proto.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["w"], value=tensor))
    elif holder == "attributes":
        del proto.graph.node[0]
        proto.opset_import.add(domain="unknown", version=1)
        proto.graph.node.append(onnx.helper.make_node("Unknown", ["x"], ["y"], domain="unknown", values=[tensor]))
    else:
        indices = numpy_helper.from_array(np.array([0, 1]))
        proto.graph.sparse_initializer.append(onnx.SparseTensorProto(values=tensor, indices=indices, dims=[2]))
    return proto


def test_an_external_file_of_several_hard_links_is_refused(tmp_path: Path) -> None:
    path = external(tmp_path)
    os.link(tmp_path / "weights.bin", tmp_path / "link.bin")
    with pytest.raises(ModelError, match="which has several hard links: make a copy of it"):
        load(path)


@pytest.mark.parametrize("holder", ["attributes", "sparse", "function"])
def test_external_data_outside_of_graphs_is_read_from_the_models_folder_into_the_copy(
    tmp_path: Path, holder: str
) -> None:
    (tmp_path / "w.bin").write_bytes(np.array([1, 2], np.float32).tobytes())
    model = load(written(tmp_path / "model.onnx", with_external(holder, {"location": "w.bin"})))
    (tmp_path / "elsewhere").mkdir()
    save(run(model).after, tmp_path / "elsewhere" / "after.onnx")
    assert os.listdir(tmp_path / "elsewhere") == ["after.onnx"]
    after = onnx.load(tmp_path / "elsewhere" / "after.onnx")
    if holder == "sparse":
        (tensor,) = after.graph.initializer
    elif holder == "attributes":
        (tensor,) = after.graph.node[-1].attribute[0].tensors
    else:
        (tensor,) = after.functions[0].node[0].attribute[0].g.initializer
    assert numpy_helper.to_array(tensor).tolist() == [1.0, 2.0]


# ---- writing


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot write .*none/y\.onnx: No such file"):
        save(from_proto(weighty()), tmp_path / "none" / "y.onnx")


def test_a_folder_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot write .*: it is no ordinary file"):
        save(from_proto(weighty()), tmp_path)


def test_devices_and_pipes_are_written_to(tmp_path: Path) -> None:
    model = load(external(tmp_path))
    before = sorted(os.listdir("/dev"))
    save(model, "/dev/null")
    assert Path("/dev/null").is_char_device()
    assert sorted(os.listdir("/dev")) == before
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit(pipe.read_bytes)
        save(model, pipe)
        assert onnx.load_from_string(read.result()).graph.initializer[0].raw_data
    assert pipe.is_fifo()
    if Path("/dev/full").exists():
        with pytest.raises(ModelError, match="cannot write /dev/full: No space left on device"):
            save(model, "/dev/full")


def test_what_killed_processes_leave_is_removed_and_nothing_of_those_that_live(tmp_path: Path) -> None:
    """One process is killed while it writes; another goes on while a third removes what is left of the first."""
    program = "import sys, time; from eqsat.files import replacing\n"
    program += "with replacing(sys.argv[1]) as path: path.write_text('whole'); print(flush=True); sys.stdin.read()"

    def writing(name: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", program, str(tmp_path / name)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    with writing("killed") as killed, writing("living") as living:
        assert len(os.listdir(tmp_path)) == 2
        killed.kill()
        killed.wait()
        save(from_proto(weighty()), tmp_path / "model.onnx")
        assert len(os.listdir(tmp_path)) == 2
        living.communicate("")
    assert living.returncode == 0
    assert sorted(os.listdir(tmp_path)) == ["living", "model.onnx"]


def test_a_link_keeps_pointing_to_what_is_written(tmp_path: Path) -> None:
    old = written(tmp_path / "old.onnx", weighty())
    (tmp_path / "link.onnx").symlink_to(old)
    save(from_proto(conv_batch_norm()), tmp_path / "link.onnx")
    assert (tmp_path / "link.onnx").is_symlink()
    assert len(onnx.load(old).graph.node) == 3


def test_permissions_are_kept(tmp_path: Path) -> None:
    path = written(tmp_path / "m.onnx", weighty())
    path.chmod(0o640)
    save(from_proto(weighty()), path)
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("as_external", [False, True])
def test_a_full_disk_leaves_what_was_there(tmp_path: Path, as_external: bool) -> None:
    """A limit on the size of files stands for the full disk."""
    source = external(tmp_path) if as_external else written(tmp_path / "model.onnx", weighty())
    target = tmp_path / "out.onnx"
    target.write_bytes(b"as it was")
    before = sorted(os.listdir(tmp_path))
    program = "import sys, eqsat.onnx as o; o.save(o.load(sys.argv[1]), sys.argv[2])"

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    done = subprocess.run(
        [sys.executable, "-B", "-c", program, source, target], preexec_fn=limit, capture_output=True, text=True
    )
    assert "ModelError: cannot write" in done.stderr
    assert "File too large" in done.stderr
    assert target.read_bytes() == b"as it was"
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="files without a folder are of Linux")
def test_an_engine_has_no_file_that_a_killed_process_could_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(tempfile, "mkstemp")
    gc.collect()  # closes what other tests left open, so that nothing of theirs is counted
    before = len(os.listdir("/proc/self/fd"))
    run(from_proto(weighty()))
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_folders_for_temporary_files_are_removed(tmp_path: Path) -> None:
    with scratch_folder(tmp_path) as folder:
        (folder / "file").touch()
        assert os.listdir(tmp_path) == [folder.name]
    assert os.listdir(tmp_path) == []


def test_a_folder_that_another_process_removes_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def make(prefix: str, dir: Path) -> str:
        made.append(tempfile.mkdtemp(prefix=prefix, dir=dir))
        if len(made) == 1:
            os.rmdir(made[0])
        return made[-1]

    monkeypatch.setattr("eqsat.files.mkdtemp", make)
    with scratch_folder(tmp_path) as folder:
        assert [str(folder)] == made[1:]
        assert folder.is_dir()
