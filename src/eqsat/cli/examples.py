"""Examples at the end of the help texts of the commands."""

from __future__ import annotations

import click

EXAMPLES: dict[str, tuple[str, ...]] = {
    "optimize": (
        "eqsat optimize in.onnx out.onnx",
        "eqsat optimize in.onnx out.onnx --verify 3 --report report.html --explain",
        "eqsat optimize in.onnx out.onnx --certificate c.json",
    ),
    "bisect": ("eqsat bisect in.onnx --check 'test -s'",),
    "calibrate": ("eqsat calibrate in.onnx",),
    "check": ("eqsat check in.onnx out.onnx c.json",),
    "compare": ("eqsat compare in.onnx",),
    "equal": ("eqsat equal in.onnx out.onnx", "eqsat equal in.onnx out.onnx --report page.html"),
    "extract": ("eqsat extract graph.json --method exact --json",),
    "optimize-all": ("eqsat optimize-all models optimized --verify 1",),
    "partition": ("eqsat partition in.onnx cut.onnx --target tensorrt",),
    "rules list": ("eqsat rules list", "eqsat rules list --json"),
    "rules prove": ("eqsat rules prove relu-twice",),
    "rules verify": ("eqsat rules verify relu-twice --instances 200",),
    "show": ("eqsat show in.onnx", "eqsat show in.onnx --format svg"),
    "variants": ("eqsat variants in.onnx --count 5 --out variants",),
    "why": ("eqsat why out.onnx y", "eqsat why out.onnx Relu:0 --origin in.onnx"),
    "why-not": ("eqsat why-not in.onnx relu-twice",),
}
"""Name of a command -> its examples. Examples of later commands may use the files that `optimize` wrote."""


def show_examples(command: click.Command, name: str) -> None:
    """Add its examples to the end of the help text of a command, and of the commands in a group."""
    if isinstance(command, click.Group):
        for each, inner in command.commands.items():
            show_examples(inner, f"{name} {each}")
    elif name in EXAMPLES:
        command.epilog = "\n".join(["\b", "Examples:", *[f"  {line}" for line in EXAMPLES[name]]])
