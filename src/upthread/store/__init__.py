"""What upthread remembers: one port (`base`), one folder or module per backend."""
