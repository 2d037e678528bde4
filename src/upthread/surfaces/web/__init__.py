"""The record in a browser: live, read-only, on loopback (needs `upthread[web]`)."""
