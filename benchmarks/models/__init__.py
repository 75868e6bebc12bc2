"""Networks that tensor-graph optimizers are measured on, as functions of the IR.

Seven follow the shapes of TENSAT's and TASO's benchmarks (batch 1); ``bert_base`` is the published encoder. Weights
are constants that are made only if someone reads them.
"""

from __future__ import annotations

from collections.abc import Callable

from eqsat.relay.expr import Function

from .bert import bert, bert_base
from .inception_v3 import inception_v3
from .nasnet_a import nasnet_a
from .nasrnn import nasrnn
from .resnext50 import resnext50
from .squeezenet import squeezenet
from .vgg19 import vgg19

TENSAT: dict[str, Callable[[], Function]] = {
    "BERT": bert,
    "ResNeXt-50": resnext50,
    "NasNet-A": nasnet_a,
    "NasRNN": nasrnn,
    "Inception-v3": inception_v3,
    "SqueezeNet": squeezenet,
    "VGG-19": vgg19,
}
"""TENSAT's seven networks."""

MODELS = {**TENSAT, "BERT-base": bert_base}
