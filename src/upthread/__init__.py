"""Your agents pick up where they left off, and tell you when they can't."""

__version__ = "0.1.0"
