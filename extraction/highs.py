"""The solver HiGHS, without output."""

from __future__ import annotations

import highspy


class QuietHighs(highspy.Highs):  # type: ignore[misc]
    """A solver that writes nothing.

    HiGHS 1.16 writes its name and version as soon as callbacks are enabled, which its Python class does when it is
    made, before options can be set.
    """

    def enableCallbacks(self) -> None:
        """Enable callbacks, without output."""
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()
