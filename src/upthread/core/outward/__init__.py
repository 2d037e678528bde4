"""Actions that reach beyond this machine: which a call holds, and when two are the same. Pure.

actions         one action, whether two may be the same, and with what a person looks
shell_commands  the commands in a line of shell, with their words
nested_commands commands that run others, and what a line says of its own names
families        what a program does beyond this machine, and to what, by its words
programs        which programs do, and which of their options take a word
opaque          commands of which the words alone do not tell what they do, and their tasks
hidden_repeats  whether a line may do a held action again by what it runs
calls           the actions of a call, whatever an agent says it with
"""
