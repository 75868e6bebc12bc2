"""Extraction as an integer program in HiGHS, first relaxed, and the inequalities that tighten it.

Columns: x_n, node n is chosen, and y_c, class c is used. Rows:

    y_c = sum of x_n over the nodes of c;  y_root = 1
    sum of x_n over the nodes of class p with child c <= y_c          for all classes p, c
    y_c <= sum of x_n over the nodes with child c                     only where costs are negative
    sum of cost_n x_n <= limit                                        for each objective before the one minimised
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import highspy
import numpy as np

from .highs import QuietHighs
from .problem import Floats, Ints, Problem
from .solution import SolverFailure, walk

Inequality = tuple[list[int], list[float]]
"""Columns and coefficients of an inequality `... <= 0`."""


class Relaxation:
    """The program and its last solution.

    Args:
        problem, seed: The problem, and the seed of the solver.
        limits: The largest costs allowed under the first objectives; the objective after these is minimised.

    Attributes:
        cost: The node costs to minimise; float (N,).
        x: The values of the nodes; float (N,).
        y: The values of the classes; float (C,).
        reduced: The reduced costs of x in the last solution without integrality; float (N,).
        relaxed: The value of that solution.
        bound: No integer solution costs less.
        status: The solver's status in its own words.
    """

    def __init__(self, problem: Problem, seed: int, limits: Sequence[float] = ()) -> None:
        self.problem = problem
        self.cost = problem.objectives[len(limits)]
        self.scale = _scale(self.cost)
        self.bound = self.relaxed = -np.inf
        self.status = ""
        self.x: Floats = np.zeros(problem.num_nodes)
        self.y: Floats = np.zeros(problem.num_classes)
        self.reduced: Floats = np.zeros(problem.num_nodes)
        self._levels: list[dict[int, int]] = []  # columns of the levels, for each cyclic component
        self._end = np.inf
        self._highs = QuietHighs()
        for option, value in (("threads", 1), ("random_seed", seed & 0x7FFFFFFF)):
            self._highs.setOptionValue(option, value)
        for asked in ("cbSimplexInterrupt", "cbIpmInterrupt", "cbMipInterrupt"):
            getattr(self._highs, asked).subscribe(self._stop_when_late)
        self._pass_model()
        for cost, limit in zip(problem.objectives, limits, strict=False):
            scale, used = _scale(cost), np.flatnonzero(cost).astype(np.int32)
            self._highs.addRow(-highspy.kHighsInf, limit * scale, len(used), used, cost[used] * scale)
            self._rows += 1

    def y_column(self, index: int) -> int:
        """The column of a class."""
        return self.problem.num_nodes + index

    def _pass_model(self) -> None:
        problem, n, c = self.problem, self.problem.num_nodes, self.problem.num_classes
        lower = np.zeros(n + c)
        lower[n + problem.roots] = 1.0
        row, column, value, equal = self._entries()
        order = np.lexsort((column, row))
        lp = highspy.HighsLp()
        self._rows = int(row.max()) + 1
        lp.num_col_, lp.num_row_ = n + c, self._rows
        lp.col_cost_ = np.concatenate([self.cost * self.scale, np.zeros(c)])
        lp.col_lower_, lp.col_upper_ = lower, np.ones(n + c)
        lp.row_lower_ = np.where(np.arange(lp.num_row_) < equal, 0.0, -highspy.kHighsInf)
        lp.row_upper_ = np.zeros(lp.num_row_)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.searchsorted(row[order], np.arange(lp.num_row_ + 1)).astype(np.int32)
        lp.a_matrix_.index_ = column[order].astype(np.int32)
        lp.a_matrix_.value_ = value[order]
        if self._highs.passModel(lp) == highspy.HighsStatus.kError:
            raise SolverFailure("HiGHS refused the model")

    def _entries(self) -> tuple[Ints, Ints, Floats, int]:
        """Rows, columns and values of the matrix, and how many of the first rows are equations."""
        problem, n, c = self.problem, self.problem.num_nodes, self.problem.num_classes
        classes = np.arange(c)
        user = np.repeat(np.arange(n), np.diff(problem.child_offsets))
        pair, pair_row = np.unique(problem.node_class[user] * c + problem.child, return_inverse=True)
        rows = [problem.node_class, classes, c + pair_row, c + np.arange(len(pair))]
        columns = [np.arange(n), n + classes, user, n + pair % c]
        values = [np.ones(n), -np.ones(c), np.ones(len(user)), -np.ones(len(pair))]
        if problem.signed:
            below = np.setdiff1d(classes, problem.roots)
            number = np.full(c, -1)
            number[below] = c + len(pair) + np.arange(len(below))
            inner = number[problem.child] >= 0
            rows += [number[below], number[problem.child[inner]]]
            columns += [n + below, user[inner]]
            values += [np.ones(len(below)), -np.ones(int(inner.sum()))]
        return np.concatenate(rows), np.concatenate(columns), np.concatenate(values), c

    def add(self, cuts: Sequence[Inequality]) -> None:
        """Add inequalities."""
        starts = np.cumsum([0, *(len(columns) for columns, _ in cuts[:-1])], dtype=np.int32)
        index = np.array([c for columns, _ in cuts for c in columns], np.int32)
        value = np.array([v for _, values in cuts for v in values])
        low, high = np.full(len(cuts), -highspy.kHighsInf), np.zeros(len(cuts))
        self._highs.addRows(len(cuts), low, high, len(index), starts, index, value)

    def drop_slack(self) -> None:
        """Drop the added inequalities that do not bind."""
        duals = np.array(self._highs.getSolution().row_dual)
        slack = np.flatnonzero(np.abs(duals) < 1e-9)
        slack = slack[slack >= self._rows].astype(np.int32)
        if len(slack):
            self._highs.deleteRows(len(slack), slack)

    def solve(self, seconds: float) -> bool:
        """Solve the relaxation; whether that succeeded in the time given."""
        solved: bool = self._run(seconds) == highspy.HighsModelStatus.kOptimal
        if solved:
            self.bound = self.relaxed = self._highs.getInfo().objective_function_value / self.scale
            solution = self._highs.getSolution()
            self._read(solution)
            self.reduced = np.array(solution.col_dual[: self.problem.num_nodes]) / self.scale
        return solved

    def order(self, cycles: Sequence[Sequence[int]]) -> None:
        """Give each class of a cyclic component a level t_c; a chosen node's class lies above its children there.

        t_k + 1 <= t_c + size (1 - sum of x_n over the nodes of c with child k), 0 <= t <= size - 1. This alone forbids
        every cycle once x is integer, though it hardly tightens the relaxation. A second call changes nothing.
        """
        if self._levels:
            return
        for classes in cycles:
            size = len(classes)
            first = self._highs.getNumCol()
            self._highs.addVars(size, np.zeros(size), np.full(size, size - 1.0))
            level = {index: first + i for i, index in enumerate(classes)}
            self._levels.append(level)
            for index in classes:
                needs: dict[int, list[int]] = {}
                for node in self.problem.class_nodes[index]:
                    for kid in self.problem.children[node]:
                        if kid in level:
                            needs.setdefault(kid, []).append(node)
                for kid, nodes in needs.items():
                    columns = np.array([level[kid], level[index], *nodes], np.int32)
                    values = np.array([1.0, -1.0] + [float(size)] * len(nodes))
                    self._highs.addRow(-highspy.kHighsInf, size - 1.0, len(columns), columns, values)

    def require_integers(self) -> None:
        """Require integral node values from now on."""
        n = self.problem.num_nodes
        kinds = np.full(n, highspy.HighsVarType.kInteger)
        self._highs.changeColsIntegrality(n, np.arange(n, dtype=np.int32), kinds)
        self._highs.setOptionValue("mip_rel_gap", 0.0)

    def branch(self, seconds: float, start: Sequence[int], step: float) -> bool:
        """Solve with integers, from the choice `start`; whether x now holds an integer solution.

        `step`: costs of solutions differ by multiples of it (0 where unknown). `bound` is raised to what was proved.
        """
        gap = 0.999 * step * self.scale if step else 1e-7
        self._highs.setOptionValue("mip_abs_gap", max(gap, 1e-7))
        self._highs.setSolution(self._start(start))
        status = self._run(seconds)
        info = self._highs.getInfo()
        self.bound = max(self.bound, info.mip_dual_bound / self.scale)
        if status == highspy.HighsModelStatus.kInfeasible:
            self.bound = np.inf
        found: bool = info.primal_solution_status == 2
        if found:
            self._read(self._highs.getSolution())
        return found

    def chosen(self) -> Ints:
        """The choice that an integer solution makes: a node for each class, -1 for none."""
        choice = np.full(self.problem.num_classes, -1, np.int64)
        nodes = np.flatnonzero(self.x[: self.problem.num_nodes] > 0.5)
        choice[self.problem.node_class[nodes]] = nodes
        return choice

    def _start(self, choice: Sequence[int]) -> highspy.HighsSolution:
        values = np.zeros(self._highs.getNumCol())
        for index, node in enumerate(choice):
            if node >= 0:
                values[[node, self.y_column(index)]] = 1.0
        order = walk(self.problem, choice)
        for level in self._levels:
            for height, index in enumerate(c for c in order if c in level):
                values[level[index]] = height
        solution = highspy.HighsSolution()
        solution.col_value = values.tolist()
        return solution

    def _run(self, seconds: float) -> highspy.HighsModelStatus:
        limit = self._highs.getRunTime() + seconds if np.isfinite(seconds) else highspy.kHighsInf
        self._highs.setOptionValue("time_limit", limit)
        self._end = perf_counter() + seconds
        try:
            self._highs.startSolve()
            while not self._highs.wait(0.1)[0]:
                pass
        except (KeyboardInterrupt, SystemExit):
            self._end = -np.inf
            self._highs.wait()
            raise
        except Exception as error:
            raise SolverFailure(f"HiGHS failed: {error}") from error
        status: highspy.HighsModelStatus = self._highs.getModelStatus()
        if status == highspy.HighsModelStatus.kInterrupt:
            status = highspy.HighsModelStatus.kTimeLimit
        self.status = self._highs.modelStatusToString(status)
        return status

    def _stop_when_late(self, event: highspy.highs.HighsCallbackEvent) -> None:
        """Stop HiGHS, of which some parts do not look at its time limit. What is said stays until it is said again."""
        event.interrupt(perf_counter() > self._end)

    def _read(self, solution: highspy.HighsSolution) -> None:
        n, c = self.problem.num_nodes, self.problem.num_classes
        values = np.array(solution.col_value)
        self.x, self.y = values[:n], values[n : n + c]


def _scale(cost: Floats) -> float:
    """What costs are multiplied by for HiGHS, whose tolerances are absolute."""
    return 1000.0 / max(1e-300, float(np.abs(cost).max()))
