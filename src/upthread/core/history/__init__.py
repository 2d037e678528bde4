"""Histories: what is valid for a provider, what is not, and how a damaged one is made valid."""
