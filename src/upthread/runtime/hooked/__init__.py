"""Calls inside agents that people run: what hooks are told, and what they saw, recorded."""
