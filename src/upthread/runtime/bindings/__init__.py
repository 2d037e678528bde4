"""What hooks and plug-ins read instead of the database: small files, private, replaced atomically.

    HOME/hooks/places/PLACE.json              a repository: its project, roles, what is in use
    HOME/hooks/projects/PROJECT/bindings/…    one file for each conversation: session, files read
    HOME/hooks/projects/PROJECT/sessions/…    the workstream a prompt has bound a session to
    HOME/hooks/projects/PROJECT/spool/…       what happened, until it is in the database
    HOME/hooks/projects/PROJECT/unread/…      calls whose agent's store could not be read yet

A hook is a process of its own for every delegation, so this package imports nothing that costs
time: no `json`, `re`, `typing`, `dataclasses`, `pathlib`. The database stays the truth; the files
are made from it, except for what a hook has just seen, which is in the spool as well.
"""
