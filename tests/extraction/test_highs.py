"""HiGHS writes nothing to the output of programs."""

import subprocess
import sys

SOLVING = """
from eqsat.extraction.highs import QuietHighs

solver = QuietHighs()
solver.addVar(0, 1)
solver.run()
"""


def test_a_solver_writes_nothing() -> None:
    run = subprocess.run([sys.executable, "-c", SOLVING], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("", "")
