"""Exports: a workstream's record in formats of others, from `runtime.record.timeline`."""
