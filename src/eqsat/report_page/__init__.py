"""The report page: what optimizations did, or whether graphs are equal, as one HTML file that needs nothing else."""

from eqsat.report_page.document import write
from eqsat.report_page.models import render_models
from eqsat.report_page.page import render, render_equality

__all__ = ["render", "render_equality", "render_models", "write"]
