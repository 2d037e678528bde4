"""`re.compile`, done when the expression is first used.

A verb loads some hundred and fifty expressions, a tenth of a millisecond each, and uses a dozen.
A fault in one is found at its first use; `tests/core/test_lazy_regex.py` uses them all.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


def regex(expression: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return what does as the compiled expression does; of another class, so not to be compared."""
    return cast("re.Pattern[AnyStr]", _Later(expression, flags))


class _Later:
    def __init__(self, expression: str | bytes, flags: int) -> None:
        self._expression, self._flags = expression, flags

    def __getattr__(self, name: str) -> Any:
        member = getattr(re.compile(self._expression, self._flags), name)
        # What was asked for once is found without coming here.
        setattr(self, name, member)
        return member
