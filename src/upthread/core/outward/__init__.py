"""Actions that reach beyond this machine: which a call holds, and when two are the same. Pure.

actions         one action, whether two may be the same, and with what a person looks
shell_commands  the commands in a line of shell, with their words, and those that they run
repeatable      which lines may run again while an action is in doubt
calls           what a call does beyond this machine, and to what, whatever an agent says it with
"""
