"""The callbacks that the corpus of Relay's results names."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqsat import relay
from eqsat.relay.dataflow_pattern import DFPattern, DFPatternCallback, is_constant, is_op, is_var, wildcard


class Callback(DFPatternCallback):
    """A callback made of a pattern over named sub-patterns, and a function of what they matched.

    ``result`` gives None to leave a match alone.
    """

    require_type = rewrite_once = False
    constants: tuple[str, ...] = ()

    def __init__(self) -> None:
        names = self.names.split()
        self.parts: dict[str, DFPattern] = {n: is_constant() if n in self.constants else wildcard() for n in names}
        self.pattern = self.lhs(**self.parts)

    names = "x"

    def lhs(self, **parts: Any) -> Any:
        raise NotImplementedError

    def result(self, pre: Any, post: Any, **matched: Any) -> Any:
        raise NotImplementedError

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        matched = {name: node_map[part][0] for name, part in self.parts.items()}
        result = self.result(pre, post, **matched)
        return post if result is None else result


def all_are(constant: Any, value: float) -> bool:
    return bool(np.all(constant.data.numpy() == value))


class PlusZero(Callback):
    names, constants = "x c", ("c",)

    def lhs(self, x: Any, c: Any) -> Any:
        return x + c

    def result(self, pre: Any, post: Any, x: Any, c: Any) -> Any:
        return x if all_are(c, 0) else None


class MulOne(Callback):
    names, constants = "x c", ("c",)

    def lhs(self, x: Any, c: Any) -> Any:
        return x * c

    def result(self, pre: Any, post: Any, x: Any, c: Any) -> Any:
        return x if all_are(c, 1) else None


class BnRecognise(Callback):
    names, constants = "x var mean beta gamma eps", ("eps",)

    def lhs(self, x: Any, var: Any, mean: Any, beta: Any, gamma: Any, eps: Any) -> Any:
        return gamma * (x - mean) / is_op("sqrt")(var + eps) + beta

    def result(self, pre: Any, post: Any, x: Any, var: Any, mean: Any, beta: Any, gamma: Any, eps: Any) -> Any:
        epsilon = float(eps.data.numpy().reshape(-1)[0])
        return relay.nn.batch_norm(x, gamma, beta, mean, var, epsilon=epsilon)[0]


class ReluOfRelu(Callback):
    def lhs(self, x: Any) -> Any:
        return is_op("nn.relu")(is_op("nn.relu")(x))

    def result(self, pre: Any, post: Any, x: Any) -> Any:
        return relay.nn.relu(x)


class AddToSubtractOnce(Callback):
    rewrite_once = True
    names = "x y"

    def lhs(self, x: Any, y: Any) -> Any:
        return x + y

    def result(self, pre: Any, post: Any, x: Any, y: Any) -> Any:
        return relay.subtract(x, y)


class DoubleTranspose(Callback):
    def lhs(self, x: Any) -> Any:
        self.parts["inner"] = is_op("transpose")(x)
        return is_op("transpose")(self.parts["inner"])

    def result(self, pre: Any, post: Any, x: Any, inner: Any) -> Any:
        first, second = inner.attrs.axes, post.attrs.axes
        if first is None and second is None:
            return x
        if first is None or second is None or len(first) != len(second):
            return None
        return x if [first[axis] for axis in second] == list(range(len(first))) else None


class SwapAddForever(Callback):
    names = "x y"

    def lhs(self, x: Any, y: Any) -> Any:
        return is_op("add")(x, y)

    def result(self, pre: Any, post: Any, x: Any, y: Any) -> Any:
        return relay.add(y, x)


class SwapAddOnce(SwapAddForever):
    rewrite_once = True


class Factor(Callback):
    names = "a b c"

    def lhs(self, a: Any, b: Any, c: Any) -> Any:
        return a * c + b * c

    def result(self, pre: Any, post: Any, a: Any, b: Any, c: Any) -> Any:
        return relay.multiply(relay.add(a, b), c)


class DivToMul(Callback):
    names, constants = "x c", ("c",)

    def lhs(self, x: Any, c: Any) -> Any:
        return x / c

    def result(self, pre: Any, post: Any, x: Any, c: Any) -> Any:
        values = c.data.numpy()
        if values.dtype != np.float32 or np.any(values == 0):
            return None
        return relay.multiply(x, relay.const((np.float32(1) / values).astype("float32")))


class ConvAddToBias(Callback):
    names = "x w"

    def lhs(self, x: Any, w: Any) -> Any:
        self.parts |= {"conv": is_op("nn.conv2d")(x, w), "b": is_var()}
        return is_op("add")(self.parts["conv"], self.parts["b"])

    def result(self, pre: Any, post: Any, x: Any, w: Any, conv: Any, b: Any) -> Any:
        return relay.nn.bias_add(conv, b)


class MaxToRelu(Callback):
    names, constants = "x c", ("c",)

    def lhs(self, x: Any, c: Any) -> Any:
        return is_op("maximum")(x, c)

    def result(self, pre: Any, post: Any, x: Any, c: Any) -> Any:
        return relay.nn.relu(x) if all_are(c, 0) else None


class NoopCastTyped(Callback):
    require_type = True

    def lhs(self, x: Any) -> Any:
        return is_op("cast")(x)

    def result(self, pre: Any, post: Any, x: Any) -> Any:
        return x if pre.args[0].checked_type.dtype == pre.checked_type.dtype else None


class NoopReshapeTyped(Callback):
    require_type = True

    def lhs(self, x: Any) -> Any:
        return is_op("reshape")(x)

    def result(self, pre: Any, post: Any, x: Any) -> Any:
        return x if pre.args[0].checked_type.shape == pre.checked_type.shape else None


CALLBACKS: dict[str, type[Callback]] = {
    "plus_zero": PlusZero,
    "mul_one": MulOne,
    "bn_recognise": BnRecognise,
    "relu_of_relu": ReluOfRelu,
    "add_to_subtract_once": AddToSubtractOnce,
    "double_transpose": DoubleTranspose,
    "swap_add_once": SwapAddOnce,
    "swap_add_forever": SwapAddForever,
    "factor": Factor,
    "div_to_mul": DivToMul,
    "conv_add_to_bias": ConvAddToBias,
    "max_to_relu": MaxToRelu,
    "noop_cast_typed": NoopCastTyped,
    "noop_reshape_typed": NoopReshapeTyped,
}
