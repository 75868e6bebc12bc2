"""Composites: rules for the entries of pattern tables, and the cheapest cover of a graph."""
