"""How the classes of the attributes of operators are named."""

from __future__ import annotations

import re

_SHARED = {
    "AdaptivePool1D": "adaptive_avg_pool1d adaptive_max_pool1d",
    "AdaptivePool2D": "adaptive_avg_pool2d adaptive_max_pool2d",
    "AdaptivePool3D": "adaptive_avg_pool3d adaptive_max_pool3d",
    "AllClassNonMaximumSuppression": "all_class_non_max_suppression",
    "ArgReduce": "argmax argmin",
    "Argsort": "sort",
    "Broadcast": "qnn.add qnn.mul qnn.subtract",
    "Compiler": "compiler_begin compiler_end",
    "Cast": "reinterpret",
    "Conv2D": "conv2d_backward_weight contrib_conv2d_NCHWc contrib_depthwise_conv2d_NCHWc",
    "GlobalPool2D": "global_avg_pool2d global_max_pool2d",
    "InitOp": "broadcast_to full ones zeros",
    "LRN": "lrn",
    "MultiBoxPrior": "multibox_prior",
    "MultiBoxTransformLoc": "multibox_transform_loc",
    "NLLLoss": "nll_loss",
    "NonMaximumSuppression": "non_max_suppression",
    "PRelu": "prelu",
    "ROIAlign": "roi_align",
    "ROIPool": "roi_pool",
    "Reduce": "all any max mean min prod sum",
    "RegularNonMaximumSuppression": "regular_non_max_suppression",
    "Reshape": "contrib_reverse_reshape",
    "Scanop": "cumprod cumsum",
    "SearchSorted": "searchsorted",
    "Softmax": "fast_softmax log_softmax",
    "SubPixel": "depth_to_space space_to_depth",
    "UpSampling": "upsampling",
    "UpSampling3D": "upsampling3d",
}
_CLASS_NAMES = {operator: name for name, operators in _SHARED.items() for operator in operators.split()}
"""Where the class of attributes is not named after the operator alone: operator, without its package -> name."""


def attrs_class_name(type_key: str) -> str:
    """Return TVM's name for the class of attributes of an operator, such as ``"Conv2DAttrs"`` for ``"nn.conv2d"``."""
    plain = type_key.rpartition(".")[2]
    name = _CLASS_NAMES.get(type_key) or _CLASS_NAMES.get(plain)
    if name is None:
        name = "".join(
            re.sub(r"(?<=\d)d$|^nd$", lambda end: end[0].upper(), word.capitalize(), flags=re.IGNORECASE)
            for word in plain.split("_")
        )
    return f"{name}Attrs"
