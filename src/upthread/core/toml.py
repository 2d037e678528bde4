"""TOML from strangers, bounded before it is parsed. Pure."""

from __future__ import annotations

from typing import Any, Final

from upthread.core.lazy_regex import regex

KEY_PARTS_MAX: Final = 32
"""How many parts a dotted key may have. Ours have four."""

_BYTE_ORDER_MARK: Final = "\ufeff"
_PART: Final = r"""(?:"[^"\n]*"|'[^'\n]*'|[A-Za-z0-9_-]+)"""
_LONG_KEY: Final = regex(
    rf"(?m)^[ \t]*\[{{0,2}}[ \t]*{_PART}(?:[ \t]*\.[ \t]*{_PART}){{{KEY_PARTS_MAX}}}"
)
_LONG_KEY_WITHIN: Final = regex(rf"[{{,][ \t]*{_PART}(?:[ \t]*\.[ \t]*{_PART}){{{KEY_PARTS_MAX}}}")


def read_toml(text: str) -> dict[str, Any]:
    """Return a TOML document as plain values. Raises ValueError that says what is wrong."""
    import tomllib  # noqa: PLC0415  # a look reads no configuration, and loads roles for their names

    if _LONG_KEY.search(text) or _LONG_KEY_WITHIN.search(text):
        raise ValueError(f"a key has more than {KEY_PARTS_MAX} parts")
    try:
        return tomllib.loads(text.removeprefix(_BYTE_ORDER_MARK))
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
