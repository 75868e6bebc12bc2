"""What a process holds when a large graph has been saturated."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

SATURATE = """
import gc
import eqsat
from eqsat import relay
from eqsat.memory import resident_bytes
from eqsat.rules import rewrite, variables

def chain(length):
    expr = relay.var("x", shape=(8, 8))
    for index in range(length):
        expr = relay.nn.relu(expr) if index % 3 else relay.tanh(expr)
    return expr

(x,) = variables("x")
rules = [rewrite("relu-twice", relay.nn.relu(relay.nn.relu(x)), relay.nn.relu(x))]
limits = eqsat.Limits(nodes=10**6, seconds=600)
eqsat.saturate(chain(1000), rules, limits)  # loads all that is needed
graph = chain(40_000)
gc.collect()
before = resident_bytes()
saturation = eqsat.saturate(graph, rules, limits)
print((resident_bytes() - before) / saturation.node_count)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="memory is given back by glibc")
def test_the_process_grows_by_at_most_400_bytes_for_an_e_node() -> None:
    told = subprocess.run([sys.executable, "-c", SATURATE], capture_output=True, text=True, check=True).stdout
    assert 0 < float(told) <= 400
