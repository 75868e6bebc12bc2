"""Sibling convolutions whose kernels differ in size, as one convolution of kernels enlarged by zeros."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from eqsat.egraph.author import refuse
from eqsat.egraph.group_rules import NodeMap
from eqsat.egraph.rule import Refusal, Soundness
from eqsat.relay import nn
from eqsat.relay.expr import Call, Expr
from eqsat.rules.siblings import Convolutions, known_shape, w, with_attrs


class Enlarged(Convolutions):
    """Sibling convolutions whose kernels differ in height and width: the smaller kernels are padded with zeros.

    All must keep the size of the image, up to strides: kernels are odd, and images padded by half of them. Where an
    image has infinite elements, the added zeros make NaN of them.
    """

    soundness = Soundness.FINITE

    def product_key(self, product: Call, shape: tuple[int, ...]) -> Hashable:
        height, width = shape[2:]
        half = (height // 2, width // 2)
        attrs = product.attrs
        if not height % 2 or not width % 2 or attrs is None or tuple(map(int, attrs.padding)) != half * 2:
            return refuse("the kernel is even or the image is not padded by half of it")
        if tuple(map(int, attrs.dilation)) != (1, 1):
            return refuse("the kernel is dilated")
        plain = with_attrs(product, product.args, padding=(0, 0, 0, 0), kernel_size=None)
        return super().product_key(plain, (*shape[:2], 0, 0))

    def weights(self, node_maps: Sequence[NodeMap]) -> list[Expr]:
        weights = super().weights(node_maps)
        shapes = [known_shape(weight)[2:] for weight in weights]
        most = [max(sizes) for sizes in zip(*shapes, strict=True)]
        return [_padded(weight, shape, most) for weight, shape in zip(weights, shapes, strict=True)]

    def merge(self, node_maps: Sequence[NodeMap]) -> list[Expr] | Refusal:
        shapes = [known_shape(weight)[2:] for weight in super().weights(node_maps)]
        return super().merge(node_maps) if len(set(shapes)) > 1 else refuse("the kernels are equal")

    def merged_product(self, product: Call, node_maps: Sequence[NodeMap], weight: Expr) -> Call:
        shapes = [known_shape(node_map[w][0])[2:] for node_map in node_maps]
        height, width = (max(sizes) for sizes in zip(*shapes, strict=True))
        plain = super().merged_product(product, node_maps, weight)
        padding = (height // 2, width // 2) * 2
        return with_attrs(plain, plain.args, padding=padding, kernel_size=None)


def _padded(weight: Expr, shape: Sequence[int], most: Sequence[int]) -> Expr:
    margins = [((to - size) // 2, (to - size) // 2) for size, to in zip(shape, most, strict=True)]
    result: Expr = nn.pad(weight, ((0, 0), (0, 0), *margins)) if any(map(any, margins)) else weight
    return result
