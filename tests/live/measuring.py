"""Which cases of the continuity suite are brought about in every run, and which in the soak.

Natively all of them are. Over ACP most of what is seen is the agent's own doing, measured already;
each case starts two programs there, so that only those run always in which the adapter between has
a part.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.continuity import CASES

MEASURED = Path(__file__).resolve().parents[2] / "docs" / "agents" / "measured"

ALWAYS_OVER_ACP = frozenset({"killed_in_tool_call", "sub_agent", "cancelled", "deleted"})

CASES_OVER_ACP = [
    pytest.param(case, id=case.name, marks=() if case.name in ALWAYS_OVER_ACP else pytest.mark.soak)
    for case in CASES
]
