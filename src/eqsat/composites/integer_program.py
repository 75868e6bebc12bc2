"""Programs in zeros and ones, solved by HiGHS."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import highspy
import numpy as np

from eqsat.errors import ExtractionError

SLACK = 1e-9
"""How much of the first objective, relative, the second one may give away: sums of floats in another order differ."""


class IntegerProgram:
    """Which of ``columns`` to choose, under linear constraints."""

    def __init__(self, columns: Iterable[Hashable]):
        self.index = {column: index for index, column in enumerate(columns)}
        self._rows: list[tuple[dict[int, float], float]] = []

    def at_most(self, row: Mapping[Any, float], bound: float) -> None:
        """Of the chosen columns, the coefficients in ``row`` must add up to no more than ``bound``."""
        self._rows.append(({self.index[column]: value for column, value in row.items()}, bound))

    def minimize(
        self, objectives: Sequence[Mapping[Any, float]], start: Iterable[Hashable], seconds: float
    ) -> set[Hashable]:
        """The choice that is least by the first objective; of several, by the second, and so on.

        Args:
            objectives: what each column counts.
            start: a choice that is allowed; the result is no worse.
            seconds: time after which the best choice found is given.

        Raises:
            ExtractionError: the solver fails.
        """
        best = np.zeros(len(self.index))
        best[[self.index[column] for column in start]] = 1.0
        rows = list(self._rows)
        for objective in objectives:
            cost = np.array([objective[column] for column in self.index])
            scale = float(np.abs(cost).max()) or 1.0
            best = self._solve(cost / scale, rows, best, seconds)
            value = float(cost @ best) / scale
            rows.append(({index: c / scale for index, c in enumerate(cost.tolist())}, value + SLACK * max(1.0, value)))
        columns = list(self.index)
        return {columns[index] for index in np.flatnonzero(best > 0.5).tolist()}

    def _solve(self, cost: Any, rows: list[tuple[dict[int, float], float]], start: Any, seconds: float) -> Any:
        highs = highspy.Highs()
        options = {"output_flag": False, "threads": 1, "random_seed": 0, "time_limit": seconds}
        for name, value in {**options, "mip_rel_gap": 0.0, "mip_abs_gap": 0.0}.items():
            highs.setOptionValue(name, value)
        if highs.passModel(self._model(cost, rows)) == highspy.HighsStatus.kError:
            raise ExtractionError("HiGHS refused the program of a cover")
        solution = highspy.HighsSolution()
        solution.col_value = start.tolist()
        highs.setSolution(solution)
        highs.run()
        if highs.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return start
        found = np.round(np.array(highs.getSolution().col_value))
        return found if cost @ found <= cost @ start else start

    def _model(self, cost: Any, rows: list[tuple[dict[int, float], float]]) -> Any:
        count = len(self.index)
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = count, len(rows)
        lp.col_cost_, lp.col_lower_, lp.col_upper_ = cost, np.zeros(count), np.ones(count)
        lp.integrality_ = [highspy.HighsVarType.kInteger] * count
        lp.row_lower_ = np.full(len(rows), -highspy.kHighsInf)
        lp.row_upper_ = np.array([bound for _, bound in rows])
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.cumsum([0, *[len(row) for row, _ in rows]]).astype(np.int32)
        lp.a_matrix_.index_ = np.array([index for row, _ in rows for index in row], dtype=np.int32)
        lp.a_matrix_.value_ = np.array([value for row, _ in rows for value in row.values()])
        return lp
