"""Certificates that an optimized graph computes the same values, and a checker that is independent of the e-graph."""
