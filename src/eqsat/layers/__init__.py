"""Repeated layers: found, truncated to a few, and expanded again after extraction."""
