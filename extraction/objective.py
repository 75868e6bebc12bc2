"""Local search under any function of a whole choice: nothing is known of it, so every trial is evaluated in full."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from eqsat.errors import ExtractionError

from .deadline import Deadline
from .greedy import cheapest_trees
from .problem import Ints, Problem
from .search import Search
from .solution import walk

Objective = Callable[[Ints], float]


class Climb:
    """The best choice so far and its value."""

    def __init__(self, problem: Problem, objective: Objective, starts: Sequence[Ints], seed: int) -> None:
        self.problem = problem
        self.objective = objective
        self.search = Search(problem, seed)
        self.derivations = np.array(cheapest_trees(problem)[0], np.int64)
        self.best, self.value = starts[0], math.inf
        for start in starts:
            self._try(start)

    def run(self, deadline: Deadline, patience: int) -> None:
        """Switch single classes while that helps; then rebuild random regions at random prices, and so on."""
        try:
            idle = 0
            while idle < patience and not deadline.passed():
                while self._switch_each(deadline):
                    idle = 0
                trial = self._complete(self.best)
                self.search.start(trial.tolist())
                for index, node in self.search.rebuilt().items():
                    trial[index] = node
                idle = 0 if self._try(trial) else idle + 1
        except KeyboardInterrupt:
            return

    def _switch_each(self, deadline: Deadline) -> bool:
        """Try every other node of every used class; whether any helped."""
        helped = False
        used = np.flatnonzero(self.best >= 0).tolist()
        self.search.random.shuffle(used)
        for index in used:
            for node in self.problem.class_nodes[index]:
                if deadline.passed():
                    return False
                trial = self._complete(self.best)
                if trial[index] != node:
                    trial[index] = node
                    helped |= self._try(trial)
        return helped

    def _complete(self, choice: Ints) -> Ints:
        """With the cheapest tree's node for every class not in use."""
        return np.where(choice >= 0, choice, self.derivations)

    def _try(self, choice: Ints) -> bool:
        """Take a choice if it is free of cycles and better."""
        try:
            order = walk(self.problem, choice)
        except ExtractionError:
            return False
        trial = np.full(self.problem.num_classes, -1, np.int64)
        trial[order] = choice[order]
        try:
            value = float(self.objective(trial))
        except Exception as error:
            raise ExtractionError(f"the objective failed on a choice: {error!r}") from error
        if math.isnan(value):
            raise ExtractionError("the objective returned NaN for a choice")
        better = value < self.value - 1e-9 * abs(value)
        if better:
            self.best, self.value = trial, value
        return better
