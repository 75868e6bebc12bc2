"""Rewrite orders: what each order of the same rules ends at, beside saturation."""
