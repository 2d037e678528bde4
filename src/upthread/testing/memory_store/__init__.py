"""The store port on plain dicts: the model that the property tests hold the SQL backends against.

It takes every rule in the plainest way there is, and passes the same conformance suite; where it
and a backend answer differently, one of the two is wrong. Nothing of the product uses it.
"""

from upthread.testing.memory_store.store import MemoryStore

__all__ = ["MemoryStore"]
