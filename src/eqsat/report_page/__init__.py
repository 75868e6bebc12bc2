"""The report page: what an optimization did, as one HTML file that needs nothing else."""

from eqsat.report_page.page import render, write

__all__ = ["render", "write"]
