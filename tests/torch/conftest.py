"""Each test starts as a program does that has compiled nothing yet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch = pytest.importorskip("torch")
    from eqsat.torch import breaks, compiling

    torch._dynamo.reset()
    breaks.tell_of_skipped_functions(compiling.backend, compiling._tell)
    compiling._KNOWN.clear()
    compiling._tell.cache_clear()
    yield
    torch._dynamo.reset()
