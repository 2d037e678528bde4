"""The command line: what is typed, what is shown, and with which exit code it ends.

It asks the client and shows what comes back; it decides nothing about sessions and writes nothing.
Each verb is one file in `verbs/`, and only the verb that is called is imported.
"""
