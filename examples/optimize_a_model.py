"""Optimize the network that classifies files in Google's magika, and check that it computes the same values.

    python examples/optimize_a_model.py

Needs the extra `dev`: its package magika contains the network.
"""

from importlib.resources import files

import eqsat.onnx
from eqsat.onnx.graphs import node_count


def main() -> None:
    """Optimize the network, print which rules acted, and compare the outputs."""
    model = eqsat.onnx.load(str(next(files("magika").joinpath("models").rglob("model.onnx"))))
    done = eqsat.onnx.run(model)
    print(f"{node_count(model)} nodes before, {node_count(done.after)} after")
    for rule in sorted(done.extraction.report.rules.values(), key=lambda rule: -rule.matches)[:5]:
        print(f"  {rule.name} matched {rule.matches} times")
    for difference in eqsat.onnx.verify(model, done.after, runs=2):
        print(f"output {difference.output} differs by {difference.relative:.1g} of its largest value")


if __name__ == "__main__":
    main()
