"""The handshake: what attaching to a conversation rests on, the rules, the words."""
