"""Questions about graphs."""

from eqsat.relay.analysis import analysis
from eqsat.relay.analysis.analysis import (
    AnnotatedRegion,
    AnnotatedRegionSet,
    all_vars,
    bound_vars,
    free_vars,
    post_order_visit,
)

__all__ = [
    "AnnotatedRegion", "AnnotatedRegionSet", "all_vars", "analysis", "bound_vars", "free_vars", "post_order_visit",
]  # fmt: skip
