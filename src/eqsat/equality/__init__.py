"""Deciding whether two graphs are equal: by a proof, or by an input on which they differ."""
