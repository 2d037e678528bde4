"""Actions that reach beyond this machine: which a call holds, and when two are the same. Pure.

actions         one action, whether two may be the same, and with what a person looks
shell_commands  the commands in a line of shell, with their words
nested_commands commands that run others
programs        what a program does beyond this machine, and to what, by its words
repeatable      which lines may run again while an action is in doubt
calls           the actions of a call, whatever an agent says it with
"""
