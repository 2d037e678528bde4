"""Where upthread meets what it does not trust: files, git and programs, one place for each.

The table of who is trusted with what is docs/security.md. Nothing in here decides what is done with
what was read; it decides how it may be reached: bounded, without waiting, and without running
anything that somebody else put there.
"""
