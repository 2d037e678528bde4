"""`audit`: the whole record of a workstream, as Markdown for people or JSON for programs.

Reads what `runtime.record.audit` put together and leaves nothing out. Agents' words are data: in
Markdown they stand in fences and code spans they cannot close.
"""
