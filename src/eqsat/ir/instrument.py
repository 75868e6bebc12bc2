"""Instruments of passes, where ``tvm.ir.instrument`` has them."""

from eqsat.relay.transform.base import PassInstrument
from eqsat.relay.transform.instrument import (
    PassPrintingInstrument,
    PassTimingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    pass_instrument,
)

__all__ = [
    "PassInstrument",
    "PassPrintingInstrument",
    "PassTimingInstrument",
    "PrintAfterAll",
    "PrintBeforeAll",
    "pass_instrument",
]
