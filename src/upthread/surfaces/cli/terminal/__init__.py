"""The terminal: where a line goes, what may be in it, how it is laid out."""
