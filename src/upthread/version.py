"""Which upthread this is. Nothing is imported: a hook reads it while its agent waits."""

__version__ = "0.1.0"
