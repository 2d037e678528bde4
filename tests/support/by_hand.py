"""Tables that a test has by hand, because it is the oracle: what is expected of each agent."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

Row = TypeVar("Row")


def of_each(names: Iterable[str], table: Mapping[str, Row]) -> dict[str, Row]:
    """Return a table in the order of `names`.

    AssertionError at the table's own place for one it says nothing of, and for one that is none.
    """
    __tracebackhide__ = True
    wanted = list(names)
    missing = [name for name in wanted if name not in table]
    assert not missing, f"this table says nothing of {', '.join(missing)}: add what is expected"
    strays = [name for name in table if name not in wanted]
    assert not strays, f"this table is not to say anything of {', '.join(strays)}"
    return {name: table[name] for name in wanted}
