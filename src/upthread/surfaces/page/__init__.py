"""Pages: a workstream's record as HTML that can be mailed, from `runtime.record.timeline`.

One file and nothing else: no script, no picture, no font, no request. What makes it safe is one
place, `markup`: whatever is not mark-up of ours is redacted, made visible and escaped there.
"""
