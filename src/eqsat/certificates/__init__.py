"""Certificates that an optimized graph computes the same, and a checker of them that trusts no part of the e-graph."""
