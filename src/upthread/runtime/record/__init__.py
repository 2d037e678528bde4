"""The record as a whole: read together, kept to its rules, erased, forked, copied."""
