"""Redaction: what looks like a secret is replaced before anything is written down. Pure."""
