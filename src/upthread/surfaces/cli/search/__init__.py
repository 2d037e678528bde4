"""`search`: words in our own record and in the agents' stores. Reads, and keeps no index."""
