"""Repeated layers: they are found, reduced to a few for saturation, and restored after extraction."""
