"""What the CPU time of optimizing ONNX models goes to, beside onnxsim's.

    python benchmarks/where_time_goes.py [--wheels FOLDER] [--peers PYTHON] [MODEL.onnx or FOLDER ...]

Each model is optimized from file to file in a process of its own, in which a timer looks every millisecond of CPU time
at what is being done: the time since its last look belongs to the innermost function of a stage. What is imported while
optimizing is a stage of its own; imports before that are left out, for both tools. ``--peers`` is a Python that has
onnxsim. Without models: those of ``benchmarks/peers.py``.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from peers import PEERS, _has, _nodes, _paths, _run

STAGES = {
    "importlib": "imports",
    "eqsat/egraph/snapshot.py": "read-back",
    "eqsat/egraph/lower.py": "lowering",
    "eqsat/egraph/nodes.py": "lowering",
    "eqsat/egraph/chains.py": "lowering",
    "eqsat/egraph/compile.py": "compiling",
    "eqsat/egraph/query.py": "compiling",
    "eqsat/egraph/rule.py": "compiling",
    "eqsat/egraph/forms.py": "compiling",
    "eqsat/egraph/prefilter.py": "compiling",
    "eqsat/egraph/templates.py": "compiling",
    "eqsat/egraph/variadic.py": "compiling",
    "eqsat/egraph/": "rules",
    "eqsat/rules/": "rules",
    "rules/": "rules",
    "eqsat/layers/": "layers",
    "eqsat/extraction/": "extraction",
    "extraction/": "extraction",
    "eqsat/cost/": "extraction",
    "eqsat/onnx/cost.py": "extraction",
    "eqsat/pipeline/provenance.py": "provenance",
    "eqsat/onnx/provenance.py": "provenance",
    "eqsat/pipeline/": "extraction",
    "eqsat/onnx/importer.py": "ONNX in",
    "eqsat/onnx/exporter.py": "ONNX out",
    "eqsat/onnx/files.py": "files",
    "eqsat/onnx/": "other ONNX",
}
"""Beginnings of the paths of modules, and their stages; the first that fits counts. Other modules are their callers'.

The extraction has the costs of e-nodes in it, which are those of the ONNX nodes that they would be written as.
"""

ENGINE, READ_BACK = "engine", "read-back"
COLUMNS = [ENGINE, *dict.fromkeys(STAGES.values()), "other"]
LOOK = 0.001
"""Seconds of CPU time from one look to the next."""


def stage_of(frame: FrameType | None) -> str:
    """The stage that a function, or the first of its callers that is in any, belongs to."""
    while frame is not None:
        path = frame.f_code.co_filename
        if path.endswith("eqsat/egraph/engine.py"):
            return READ_BACK if frame.f_code.co_name == "rows" else ENGINE
        inside = path[path.rfind("/src/eqsat/") + len("/src/") :] if "/src/eqsat/" in path else path
        for beginning, stage in STAGES.items():
            if inside.startswith((beginning, f"<frozen {beginning}")):
                return stage
        frame = frame.f_back
    return "other"


def told(source: Path, target: Path) -> dict[str, float]:
    """Optimize a model; the CPU seconds of each stage, and of all of them."""
    from eqsat import onnx

    seconds: Counter[str] = Counter()
    last = start = time.thread_time()

    def look(_: int, frame: FrameType | None) -> None:
        nonlocal last
        now = time.thread_time()
        seconds[stage_of(frame)] += now - last
        last = now

    signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, LOOK, LOOK)
    onnx.save(onnx.optimize(onnx.load(source)), target)
    signal.setitimer(signal.ITIMER_PROF, 0)
    return {**seconds, "all": time.thread_time() - start}


def main() -> None:
    """Print a row for each model, and one for all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="*")
    parser.add_argument("--wheels", type=Path)
    parser.add_argument("--peers", default=sys.executable)
    options = parser.parse_args()
    peer = [options.peers, "-c", PEERS["onnxsim"].program] if _has(options.peers, PEERS["onnxsim"]) else None
    columns = [*COLUMNS, "all", *(["onnxsim"] if peer is not None else [])]
    print(f"{'milliseconds of CPU':<28}{'nodes':>12}" + "".join(f"{each:>11}" for each in columns))
    totals: Counter[str] = Counter()
    with TemporaryDirectory() as temporary:
        for path in _paths(options.models, options.wheels, Path(temporary)):
            target = Path(temporary) / "result.onnx"
            command = [sys.executable, __file__, "--one", str(path), str(target)]
            found = Counter(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
            nodes = f"{_nodes(path)} > {_nodes(target)}"
            if peer is not None:
                outcome = _run(peer, path, target, 0)
                found["onnxsim"] = outcome.seconds if not outcome.problem else float("nan")
            totals += found
            _print(path.stem, nodes, found, columns)
    _print("all", "", totals, columns)


def _print(name: str, nodes: str, seconds: Counter[str], columns: list[str]) -> None:
    cells = "".join(f"{seconds[each] * 1000:11.0f}" for each in columns)
    print(f"{name[:27]:<28}{nodes:>12}{cells}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(told(Path(sys.argv[2]), Path(sys.argv[3]))))
    else:
        main()
