"""The store in memory: the model the other stores are compared with, and the quickest for tests."""

from upthread.store.memory.store import MemoryStore

__all__ = ["MemoryStore"]
