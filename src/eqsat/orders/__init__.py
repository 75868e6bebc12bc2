"""Comparison of rewriting in different orders of the same rules with saturation."""
