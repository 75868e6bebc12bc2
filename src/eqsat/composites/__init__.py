"""Composites that compete: rules of pattern tables, and the cheapest cover of a graph."""
