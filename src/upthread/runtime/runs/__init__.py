"""Runs, carried out: one transition of a pipeline a commit."""
