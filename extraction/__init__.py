"""Extraction: the cheapest graph in an e-graph."""

from .greedy import dag, tree
from .gym import read_gym, write_gym
from .problem import Problem
from .solution import Result, dag_cost

__all__ = ["Problem", "Result", "dag", "dag_cost", "read_gym", "tree", "write_gym"]
