"""Questions about graphs."""

from eqsat.relay.analysis import analysis
from eqsat.relay.analysis.analysis import (
    AnnotatedRegion,
    AnnotatedRegionSet,
    all_dtypes,
    all_type_vars,
    all_vars,
    bound_type_vars,
    bound_vars,
    free_type_vars,
    free_vars,
    list_op_freqs,
    post_order_visit,
)
from eqsat.relay.well_formed import well_formed

__all__ = [
    "AnnotatedRegion",
    "AnnotatedRegionSet",
    "all_dtypes",
    "all_type_vars",
    "all_vars",
    "analysis",
    "bound_type_vars",
    "bound_vars",
    "free_type_vars",
    "free_vars",
    "list_op_freqs",
    "post_order_visit",
    "well_formed",
]  # fmt: skip
