"""What both SQL backends say alike: statements and their columns, writes, rows to values.

A backend adds where it lies (file, server), how a transaction keeps others off, and its `.sql`.
"""
