"""Variants of a graph: equal graphs that are created by applying rules at random, in either direction."""
