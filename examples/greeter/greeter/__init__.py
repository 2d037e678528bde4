"""Greets people by name."""
