"""The page of results, made of what the benchmarks measured."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

TABLE = Path(__file__).parents[2] / "benchmarks" / "peers_table.py"
_PAGE = """# Results

What eqsat and other optimizers of ONNX models make of the same files, by `benchmarks/peers.py`. Nodes are counted
without constants. Latency is the CPU time of a run in onnxruntime on one thread, as a multiple of the given model's: in
each round every model runs, in random order. Means are geometric, over the models that a tool gets right. A result is
wrong if it differs by more than 0.001 of an output's largest value, or does not load.

{told}

## All models together

{summary}

## Each model

Nodes, and milliseconds of CPU time of a run with onnxruntime's optimizer on.

{models}
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page."""
    spec = importlib.util.spec_from_file_location("peers_table", TABLE)
    assert spec is not None
    assert spec.loader is not None
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    text = _PAGE.format(told=table.told(), summary=table.summary(), models=table.models())
    files.append(File.generated(config, "results.md", content=text))
    return files
