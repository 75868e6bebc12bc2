"""Extraction: the cheapest graph in an e-graph. The cost models of :mod:`eqsat.cost` can be had here too."""

from eqsat.cost import (
    Bytes,
    CostFunction,
    CostModel,
    CostNode,
    Device,
    Flops,
    Measured,
    OpCount,
    Roofline,
    Storage,
    ties_of,
)

from .anytime import EXTRACTORS, auto, extract
from .branch_and_cut import exact
from .greedy import dag, tree
from .gym import read_gym, write_gym
from .local_search import local
from .problem import Problem
from .solution import Result, dag_cost
from .ties import nearer

__all__ = [
    "EXTRACTORS",
    "Bytes",
    "CostFunction",
    "CostModel",
    "CostNode",
    "Device",
    "Flops",
    "Measured",
    "OpCount",
    "Problem",
    "Result",
    "Roofline",
    "Storage",
    "auto",
    "dag",
    "dag_cost",
    "exact",
    "extract",
    "local",
    "nearer",
    "read_gym",
    "ties_of",
    "tree",
    "write_gym",
]
