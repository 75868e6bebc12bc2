"""The report page: what an optimization did, or whether graphs are equal, as one HTML file that needs nothing else."""

from eqsat.report_page.page import render, render_equality, write

__all__ = ["render", "render_equality", "write"]
