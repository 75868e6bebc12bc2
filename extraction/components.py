"""Strongly connected components of the class graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from .problem import Problem


def components(problem: Problem, starts: Iterable[int] | None = None) -> list[int]:
    """Number of each class's component; a class's number is never below those of the classes it can need.

    Tarjan's algorithm without recursion over the edges class -> child class of any node of it. Classes that are not
    reached from `starts`, by default all, have -1.
    """
    needs = [[c for n in nodes for c in problem.children[n]] for nodes in problem.class_nodes]
    return strongly_connected(needs, starts)


def members(component: Iterable[int]) -> list[list[int]]:
    """The members of each component in ascending order, by its number; those that have -1 are left out."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for vertex, number in enumerate(component):
        if number >= 0:
            found[number].append(vertex)
    return [found[number] for number in sorted(found)]


def strongly_connected(successors: list[list[int]], starts: Iterable[int] | None = None) -> list[int]:
    """The same for a graph given by successor lists; successors' components have smaller numbers."""
    size = len(successors)
    component = [-1] * size
    low = [0] * size
    found = 0
    clock = 1
    pending: list[int] = []
    for start in range(size) if starts is None else starts:
        if low[start]:
            continue
        low[start] = first = clock
        clock += 1
        pending.append(start)
        path = [(start, first, iter(successors[start]))]
        while path:
            vertex, index, edges = path[-1]
            for other in edges:
                if not low[other]:
                    low[other] = clock
                    pending.append(other)
                    path.append((other, clock, iter(successors[other])))
                    clock += 1
                    break
                if component[other] < 0 and low[other] < low[vertex]:
                    low[vertex] = low[other]
            else:
                path.pop()
                if path and low[vertex] < low[path[-1][0]]:
                    low[path[-1][0]] = low[vertex]
                if low[vertex] == index:
                    while component[vertex] < 0:
                        component[pending.pop()] = found
                    found += 1
    return component
