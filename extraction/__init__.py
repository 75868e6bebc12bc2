"""Extraction: the cheapest graph in an e-graph."""

from .anytime import EXTRACTORS, auto, extract
from .branch_and_cut import exact
from .cost import Bytes, CostFunction, CostModel, CostNode, Flops, OpCount, Roofline, Storage, ties_of
from .devices import Device
from .greedy import dag, tree
from .gym import read_gym, write_gym
from .local_search import local
from .measured import Measured
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
