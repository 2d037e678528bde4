"""How upthread talks to agents: one port (`base`), one folder per upstream."""
