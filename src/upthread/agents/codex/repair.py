"""Repair the agent's own store in a copy."""

from __future__ import annotations

from upthread.agents.codex.histories import repair

__all__ = ["repair"]
