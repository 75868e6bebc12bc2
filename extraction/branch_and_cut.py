"""Branch and cut: simplify, bound by a relaxation with cuts, exclude nodes by reduced costs, then branch in HiGHS."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eqsat.errors import ExtractionError

from .contract import contracted
from .costs import as_tuple
from .cuts import Cuts
from .deadline import Deadline
from .frontier import Decision
from .greedy import cheapest_dag, cheapest_trees, tree
from .independent import Part, independent
from .local_search import PATIENCE, SIMPLIFYING, improve
from .mutable import Simplified
from .narrowed import narrowed
from .problem import Floats, Ints, Problem
from .search import Search
from .simplify import simplify
from .solution import Result, SolverFailure, finish

if TYPE_CHECKING:
    from .relaxation import Relaxation

_PROGRESS = 0.01  # cutting stops when a round closes less than this share of the gap
_RESTARTS = 1  # integer solutions with a cycle after which levels forbid them all
_FEW = 30  # idle kicks before a proof is tried, which mostly takes less than more of them
_QUICK, _SIMPLER = 1 / 16, 1 / 4  # of the effort of deciding class by class, before all else and once simplified
_RELAXING = 0.5  # share of the time left for a relaxation, after which no proof is to be expected
_FIRST_TRY = 1.0  # seconds for HiGHS before the search goes on, and CP-SAT is asked
_NEAR = 0.05  # of the cost: where the bound is farther off, a proof is unlikely, and the search gets more time
_SECOND_OPINION, _SECOND_SHARE = 6.0, 0.2  # seconds, and share of the time left, for CP-SAT; the rest is for HiGHS
_TIME_OVER = "stopped by the time limit"
_SHRINK = 0.95  # worth starting over where reduced costs leave at most this share of the nodes


def exact(problem: Problem, *, seconds: float = math.inf, seed: int = 0, incumbent: ArrayLike | None = None) -> Result:
    """Extract the cheapest graph with a proof of optimality; if time runs out, the best graph found and a lower bound.

    Ctrl-C returns the best result so far. Arguments and errors are those of :func:`eqsat.extraction.extract`.
    """
    return contracted(problem, seconds, incumbent, partial(_prove, method="exact", seed=seed, patience=30, share=0.1))


def auto(problem: Problem, *, seconds: float = 5.0, seed: int = 0, incumbent: ArrayLike | None = None) -> Result:
    """Extract greedily, then improve by local search, then prove optimality, in the time given.

    The result is never more expensive than those of `tree` and `dag` or the incumbent. If the time does not run out, it
    depends on the seed alone. Ctrl-C returns the best result so far. Arguments and errors are those of
    :func:`eqsat.extraction.extract`.
    """
    return contracted(
        problem, seconds, incumbent, partial(_prove, method="auto", seed=seed, patience=PATIENCE, share=0.2)
    )


def _prove(
    problem: Problem, deadline: Deadline, incumbent: Ints | None, *, method: str, seed: int, patience: int, share: float
) -> Result:
    """Solve by dynamic programming if that is quick; otherwise by greedy and local search, then branch and cut.

    Args:
        problem, deadline, incumbent: As for :data:`eqsat.extraction.contract.Solve`.
        method: The extractor's name.
        seed: Seed of the random choices.
        patience: The number of kicks in a row without a saving after which the local search ends. There are fewer of
            them at first, and the rest only if the first attempt at a proof fails.
        share: The share of the time left that the local search may take at first.
    """
    choice = Decision(problem).run(deadline, _QUICK)
    if choice is not None:
        return finish(problem, choice, method=method, started=deadline.started, lower_bound=math.inf)
    solver = BranchAndCut(problem, tree(problem, incumbent=incumbent), seed, patience, share)
    try:
        solver.improve(cheapest_dag(problem, deadline))
        message = solver.run(deadline)
    except KeyboardInterrupt:
        message = "interrupted"
    except SolverFailure as error:
        message = f"{error}; this is the best found before"
    return finish(
        problem,
        solver.best,
        method=method,
        started=deadline.started,
        lower_bound=tuple(solver.bound),
        message=message,
    )


class BranchAndCut:
    """The state of a proof: the best choice and its cost, the lower bound, and the chain of simplified problems.

    Objectives are proved one after another: `level` is the number of the one at hand. `cost` and `bound` have one
    number for each; those before `level` agree.
    """

    def __init__(self, problem: Problem, start: Result, seed: int, patience: int, share: float) -> None:
        self.problem = problem
        self.best = start.choice
        self.cost = as_tuple(start.cost)
        self.level = 0
        self.bound = [-math.inf] * len(self.cost)
        self.seed = seed
        self.patience = patience
        self.share = share
        self.stages: list[Simplified] = []

    def run(self, deadline: Deadline) -> str:
        """Work until the optimum is proved or the time is over; return what went wrong, if anything."""
        keep = None
        current, tried, decided = self.problem, 0, 0
        while not deadline.passed():
            try:
                stage = simplify(current, keep, deadline.within(SIMPLIFYING * deadline.left()))
            except ExtractionError:  # nothing cheaper is left
                self.bound = [*self.cost]
                return ""
            self.stages.append(stage)
            if not stage.problem:
                return self._decided([])
            current = stage.problem
            decision = Decision(current)
            if current.num_nodes != tried:  # one that is no smaller is as hard to decide as before
                if (choice := decision.run(deadline, _SIMPLER)) is not None:
                    return self._decided(choice)
                tried = current.num_nodes
            if deadline.passed():
                break
            if parts := independent(current):
                return self._solve(parts, deadline)
            search = self._search(current, deadline)
            self._kick(search, deadline, _FEW, self.share)
            if deadline.passed():
                break
            from .relaxation import Relaxation  # it loads HiGHS, which most graphs do without

            relaxation, cuts = Relaxation(current, self.seed, self._limits()), Cuts(current, deadline)
            if not self._tighten(relaxation, cuts, search, deadline):
                message = self._stopped(relaxation)
                self._kick(search, deadline, self.patience, 1.0)
                return message
            self._narrow(relaxation, search, deadline)
            keep = self._worth_keeping(relaxation)
            if not self._closed() and keep.mean() > _SHRINK:
                if current.num_nodes != decided and (choice := decision.run(deadline)) is not None:
                    return self._decided(choice)
                decided = current.num_nodes
                message = self._branch(relaxation, cuts, search, deadline)
                if not self._closed():
                    return message
                keep = self._worth_keeping(relaxation)
            if self._closed():
                if self.level + 1 == len(self.cost):
                    return ""
                self.level += 1
        return _TIME_OVER

    def _decided(self, choice: list[int]) -> str:
        """Take the cheapest choice in the smallest problem."""
        self._offer(choice)
        self.bound = [*self.cost]
        return ""

    def _solve(self, parts: list[Part], deadline: Deadline) -> str:
        """Solve the independent parts of the smallest problem, small ones first; return what went wrong, if anything.

        Each part may take its share of the time that those before it have left.
        """
        message = ""
        solvers = [
            BranchAndCut(part.problem, tree(part.problem), self.seed, self.patience, self.share) for part in parts
        ]
        try:
            for solver in solvers:
                solver.improve(cheapest_dag(solver.problem, deadline))
            waiting = sorted(solvers, key=lambda solver: -solver.problem.num_nodes)
            while waiting:
                seconds = deadline.left() / len(waiting)
                message = waiting.pop().run(deadline.within(seconds)) or message
        finally:  # also where Ctrl-C strikes
            choice = np.full(sum(len(part.classes) for part in parts), -1)
            for part, solver in zip(parts, solvers, strict=True):
                part.write(solver.best, choice)
            self._offer(choice)
        for level, bounds in enumerate(zip(*[solver.bound for solver in solvers], strict=True)):
            self.level = level
            self._raise_bound(math.fsum(bounds), 0.0)
            if not self._closed():
                break
        return message

    def _constant(self, objective: int) -> float:
        """What the problem costs beyond the smallest one."""
        return math.fsum(as_tuple(stage.constant)[objective] for stage in self.stages)

    def _limits(self) -> list[float]:
        """What the smallest problem may cost under the objectives that are proved."""
        return [
            cost + self.problem.tolerance(cost, objective) / 2 - self._constant(objective)
            for objective, cost in enumerate(self.cost[: self.level])
        ]

    def improve(self, offered: Result) -> None:
        """Take an extraction if it is cheaper."""
        cost = as_tuple(offered.cost)
        if self.problem.is_less(cost, self.cost):
            self.best, self.cost = offered.choice, cost

    def _tolerance(self) -> float:
        return self.problem.tolerance(self.cost[self.level], self.level)

    def _closed(self) -> bool:
        """Whether the objective at hand is proved."""
        return self.cost[self.level] - self.bound[self.level] <= self._tolerance()

    def _room(self, small_bound: float) -> float:
        """How much the best choice is above a bound for the smallest problem."""
        return self.cost[self.level] - self._constant(self.level) - small_bound

    def _offer(self, choice: list[int] | Ints) -> None:
        """Take a choice in the smallest problem if it is cheaper."""
        for stage in reversed(self.stages):
            choice = stage.expand(choice)
        self.improve(finish(self.problem, choice, method="", started=0.0))

    def _raise_bound(self, small_bound: float, step: float) -> None:
        """Take a lower bound for the smallest problem, whose costs are multiples of `step` unless that is zero."""
        if step and math.isfinite(small_bound):
            small_bound = math.ceil(small_bound / step - 1e-6) * step
        bound = min(self.cost[self.level], self._constant(self.level) + small_bound)
        self.bound[self.level] = max(self.bound[self.level], bound)

    def _search(self, problem: Problem, deadline: Deadline) -> Search:
        """A search in the smallest problem that starts near the best choice, some of whose nodes it may not have."""
        chosen = np.zeros(self.problem.num_nodes, bool)
        chosen[self.best[self.best >= 0]] = True
        kept = chosen.tolist()
        for stage in self.stages:
            kept = stage.restrict(kept)
        search = Search(problem, self.seed)
        search.start(cheapest_trees(problem, np.where(kept, 0.0, search.base).tolist())[0])
        search.descend(deadline)
        return search

    def _narrow(self, relaxation: Relaxation, search: Search, deadline: Deadline) -> None:
        """Choose among the nodes that the relaxation makes likely."""
        for choice, bound in narrowed(relaxation, search.used(), deadline):
            if search.attempt({index: node for index, node in enumerate(choice.tolist()) if node >= 0}, deadline):
                self._offer(search.used())
            if not self.level:
                self._raise_bound(bound, granularity(relaxation.cost))
            if self._closed():
                return

    def _kick(self, search: Search, deadline: Deadline, patience: int, share: float) -> None:
        """Search on, for a share of the time left, and take what is found."""
        try:
            improve(search, deadline.within(share * deadline.left()), patience)
        finally:  # also where Ctrl-C strikes
            if search.choice:
                self._offer(search.choice)

    def _tighten(self, relaxation: Relaxation, cuts: Cuts, search: Search, deadline: Deadline) -> bool:
        """Solve the relaxation and cut until nothing is violated; whether it could be solved."""
        step = granularity(relaxation.cost)
        before = -math.inf
        while True:
            if not relaxation.solve(_RELAXING * deadline.left()):
                return False
            self._raise_bound(relaxation.bound, step)
            self._round(relaxation.x, search, deadline)
            if self._closed() or deadline.passed():
                return True
            violated = cuts.loops(relaxation) + cuts.closures(relaxation)
            if not violated or relaxation.bound - before < _PROGRESS * self._room(relaxation.bound):
                relaxation.drop_slack()
                return True
            before = relaxation.bound
            relaxation.add(violated)

    def _round(self, x: Floats, search: Search, deadline: Deadline) -> None:
        """Derive a choice from a fractional solution: what the relaxation uses is cheap."""
        base = np.array(search.base)
        weights = (base + 0.01 * base.mean() + 1e-9) * (1.0 - np.clip(x, 0.0, 1.0))
        if search.try_weights((weights + 1e-12).tolist(), deadline):
            self._offer(search.choice)

    def _worth_keeping(self, relaxation: Relaxation) -> NDArray[np.bool_]:
        """Which nodes may be in a better choice; before the last objective, in one that is as good."""
        room = self._room(relaxation.relaxed)
        step = granularity(relaxation.cost)
        margin = 0.999 * step if step else self._tolerance()
        if self.level + 1 < len(self.cost):
            margin = -self._tolerance()
        return ~((relaxation.x < 0.5) & (relaxation.reduced > room - margin))

    def _branch(self, relaxation: Relaxation, cuts: Cuts, search: Search, deadline: Deadline) -> str:
        relaxation.require_integers()
        self._branch_until(deadline.within(min(_FIRST_TRY, deadline.left() / 2)), relaxation, cuts, search)
        if not self._closed() and not deadline.passed():
            cost = self.cost[self.level]
            if cost - self.bound[self.level] <= _NEAR * abs(cost):
                self._kick(search, deadline, _FEW, self.share)
            else:
                self._kick(search, deadline, self.patience, 4 * self.share)
            self._ask_cp_sat(relaxation, search, deadline)
        if self._closed():
            return ""
        return self._branch_until(deadline, relaxation, cuts, search)

    def _ask_cp_sat(self, relaxation: Relaxation, search: Search, deadline: Deadline) -> None:
        from . import cp_sat

        if not cp_sat.available():
            return
        seconds = min(_SECOND_OPINION, _SECOND_SHARE * deadline.left())
        bound, choice = cp_sat.solve(relaxation.problem, search.used(), seconds, self.seed, self._limits())
        self._raise_bound(bound, granularity(relaxation.cost))
        if choice:
            self._offer(choice)

    def _branch_until(self, deadline: Deadline, relaxation: Relaxation, cuts: Cuts, search: Search) -> str:
        step = granularity(relaxation.cost)
        restarts = 0
        while not deadline.passed():
            found = relaxation.branch(deadline.left(), search.used(), step)
            self._raise_bound(relaxation.bound, step)
            if found:
                self._round(relaxation.x, search, deadline)
            if self._closed():
                return ""
            violated = cuts.loops(relaxation) if found else []
            if found and not violated and not cuts.deadline.passed():  # it may have a cycle that was not looked for
                self._offer(relaxation.chosen())
                if self._closed():
                    return ""
            if not violated:
                break
            relaxation.add(violated)
            restarts += 1
            if restarts == _RESTARTS:
                relaxation.order(cuts.cycles)
        return self._stopped(relaxation)

    def _stopped(self, relaxation: Relaxation) -> str:
        if relaxation.status in ("Time limit reached", "Optimal", "Not Set"):
            return _TIME_OVER
        return f"HiGHS ended with {relaxation.status!r}; this is the best found before"


def granularity(cost: Floats) -> float:
    """The largest number of which all costs are multiples, 0.0 where none is known."""
    for scale in (1.0, 1000.0):
        scaled = cost * scale
        if np.abs(scaled).max(initial=0.0) < 2**40 and np.allclose(scaled, np.round(scaled), rtol=0, atol=1e-7):
            return math.gcd(*np.round(scaled).astype(np.int64).tolist()) / scale
    return 0.0
