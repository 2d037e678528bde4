"""Git, the one place: what can be read is read by us; git itself runs where nobody configures it.

A repository's configuration names programs (filters, watchers, hooks, transports, helpers), and
each version of git has new kinds of them. So git is given none of it: a process of git has a
private directory for its repository, made by us and thrown away, with a configuration of ours, and
sees of the real one its objects, a copy of its index and its working tree. See ADR 58.

    files             a git directory's files: regular, no link, bounded, never waited for; its
                      configuration as plain values; whether it and a working tree name each other
    places            which repository a directory is in, and whether it may be read; HEAD and what
                      it names; linked working trees
    process           a process of git: from where, with what, how long, how much; what the person
                      and the machine have set for git
    private           the private directory it runs in, its settings, which files have a filter
    worktree_changes  linked working trees made and removed
"""
