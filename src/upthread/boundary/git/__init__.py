"""Git, the one place: what can be read is read by us; git itself runs where nobody configures it.

A repository's configuration names programs (filters, watchers, hooks, transports, helpers), and
each version of git has new kinds of them. So git is given none of it: a process of git has a
private directory for its repository, made by us and thrown away, with a configuration of ours, and
sees of the real one its objects, a copy of its index and its working tree. See ADR 58.

    directory_files   a file of a git directory: regular, no link, bounded, never waited for
    configuration     git's configuration format, read as plain values; includes are never followed
    linkage           whether a git directory and a working tree name each other
    places            which repository a directory is in, and whether it may be read
    references        HEAD and what it names
    person            what the person and the machine have set for git
    process           a process of git: from where, with what, how long, how much
    private           the private directory it runs in, its settings, which files have a filter
    worktrees         linked working trees: listed, made and removed; a repository of our own
"""
