"""Actions that reach beyond this machine: which a call holds, and when two are the same. Pure.

actions         one action, and whether two may be the same
shell_commands  the commands in a line of shell, with their words
values          what a line says of its own variables, functions and aliases
nested_commands commands that run others
families        what a program does beyond this machine, and to what, by its words
programs        which programs do, and which of their options take a word
opaque          commands of which the words alone do not tell what they do
recipes         the commands that a task of `make` or `npm` stands for
action_words    the words that tell of an action in any text
remotes         which remotes of a repository are one
hidden_repeats  whether a line may do a held action again by what it runs
inspection      with what a person may ask whether an action was done
calls           the actions of a call, whatever an agent says it with
"""
