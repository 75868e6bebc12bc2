"""Random numbers that a key determines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqsat import relay
from eqsat.errors import TypeCheckError
from eqsat.relay.infer import infer_type
from eqsat.relay.interpreter import evaluate

MASK = (1 << 64) - 1
ROTATIONS = [(14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32)]


def mixed(key: list[int], words: list[int]) -> list[int]:
    """20 rounds of Threefry on four words, in Python's own integers, without the addition of the key at the end."""
    schedule = [*key, key[0] ^ key[1] ^ key[2] ^ key[3] ^ 0x1BD11BDAA9FC1A22]
    for step in range(20):
        if step % 4 == 0:
            words = [(word + schedule[(step // 4 + i) % 5]) & MASK for i, word in enumerate(words)]
            words[3] = (words[3] + step // 4) & MASK
        result = []
        for (a, b), bits in zip((words[:2], words[2:]), ROTATIONS[step % 8], strict=True):
            a = (a + b) & MASK
            result += [a, a ^ (b << bits & MASK | b >> 64 - bits)]
        words = [result[0], result[3], result[2], result[1]]
    return words


def values(call: Any) -> Any:
    return evaluate(call)


def test_words_are_those_of_the_cipher() -> None:
    key = relay.random.threefry_key(2**70 + 5)
    following, found = values(relay.random.threefry_generate(key, (3, 3)))
    words = [int(word) for word in key.data.numpy()]
    assert words == [5, 64, 0, 0, 0, 0, 0, 0, 1 << 63, 0]
    expected = [number for block in range(3) for number in mixed(words[:4], [block] * 4)][:9]
    assert found.reshape(-1).tolist() == expected
    assert following.tolist() == [*words[:7], 9, *words[8:]], "the counter goes on"


def test_a_call_is_a_function_of_its_key() -> None:
    key = relay.random.threefry_key(1)
    once, again = (values(relay.random.uniform(key, (8,))) for _ in range(2))
    assert np.array_equal(once[1], again[1])
    later = values(relay.random.uniform(relay.const(once[0]), (8,)))
    assert not np.array_equal(once[1], later[1])


def test_a_key_splits_into_two() -> None:
    key = relay.random.threefry_key(3)
    seen = set()
    for _ in range(130):  # beyond the 128 places of the path
        left, right = values(relay.random.threefry_split(key))
        seen |= {tuple(left.tolist()), tuple(right.tolist())}
        key = relay.const(right)
    assert len(seen) == 260


def test_a_counter_without_room_makes_another_key() -> None:
    words = relay.random.threefry_key(3).data.numpy().copy()
    words[7] = MASK - 2
    following, _ = values(relay.random.threefry_generate(relay.const(words), (8,)))
    assert following.tolist() == [3, 0, 0, 0, 1 << 63, 0, 0, 8, 1 << 62, 0], "a bit of the path is set"
    words[8:] = 0
    following, _ = values(relay.random.threefry_generate(relay.const(words), (8,)))
    assert following[4:].tolist() == [0, 0, 0, 8, 1 << 63, 0]
    assert following[:4].tolist() == mixed([3, 0, 0, 0], [MASK] * 4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distributions(dtype: str) -> None:
    key = relay.random.threefry_key(7)
    _, numbers = values(relay.random.uniform(key, (100, 100), dtype, low=2.0, high=6.0))
    assert numbers.dtype == dtype
    expected = relay.TensorType((4,), dtype)
    for build in (relay.random.uniform, relay.random.normal):
        assert infer_type(build(key, (4,), dtype)).checked_type.fields[1] == expected
    assert numbers.min() >= 2
    assert numbers.max() < 6
    np.testing.assert_allclose([numbers.mean(), numbers.std()], [4, 4 / np.sqrt(12)], atol=0.05)
    _, numbers = values(relay.random.normal(key, (100, 100), dtype, mean=-1.0, scale=3.0))
    np.testing.assert_allclose([numbers.mean(), numbers.std()], [-1, 3], atol=0.1)
    assert abs(np.mean(np.abs(numbers + 1) < 3) - 0.6827) < 0.02, "two thirds are within one deviation"


def test_multinomial() -> None:
    weights = np.array([[1, 0, 3, -2], [0, 5, 0, 0]], "float32")
    _, found = values(relay.random.multinomial(relay.random.threefry_key(5), relay.const(weights), 4000))
    assert (found.shape, found.dtype) == ((2, 4000), np.int32)
    shares = [np.bincount(row, minlength=4) / 4000 for row in found]
    np.testing.assert_allclose(shares, [[0.25, 0, 0.75, 0], [0, 1, 0, 0]], atol=0.03)


def test_calls_are_taken_apart_as_in_relay() -> None:
    key = relay.random.threefry_key(1)
    left, right = relay.TupleWrapper(relay.random.threefry_split(key), 2)
    first, second = (relay.TupleGetItem(relay.random.threefry_generate(each, (4,)), 1) for each in (left, right))
    one, other = evaluate(relay.Tuple([first, second]))
    assert not np.array_equal(one, other)
    assert infer_type(relay.random.threefry_split(key)).checked_type == relay.TupleType(
        [relay.TensorType((10,), "uint64")] * 2
    )


def test_what_is_no_key_or_number() -> None:
    with pytest.raises(TypeCheckError, match=r"key must be uint64, not float32; random\.threefry_key makes one"):
        infer_type(relay.random.threefry_split(relay.var("key", shape=(10,))))
    with pytest.raises(TypeCheckError, match="random numbers are float32 or float64, not int32"):
        infer_type(relay.random.uniform(relay.random.threefry_key(0), (4,), "int32", 0, 9))
