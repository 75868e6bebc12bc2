"""Operators whose shape parameters are tensors, under the name ``relay.op.dyn``."""

from eqsat.relay.op.create import dyn_full as full
from eqsat.relay.op.create import dyn_ones as ones
from eqsat.relay.op.create import dyn_zeros as zeros
from eqsat.relay.op.index import dyn_strided_slice as strided_slice
from eqsat.relay.op.sparse import dyn_sparse_to_dense as sparse_to_dense
from eqsat.relay.op.transform import dyn_broadcast_to as broadcast_to
from eqsat.relay.op.transform import dyn_expand_dims as expand_dims
from eqsat.relay.op.transform import dyn_reshape as reshape
from eqsat.relay.op.transform import dyn_squeeze as squeeze
from eqsat.relay.op.transform import dyn_tile as tile

__all__ = [
    "broadcast_to", "expand_dims", "full", "ones", "reshape", "sparse_to_dense", "squeeze", "strided_slice", "tile",
    "zeros",
]  # fmt: skip
