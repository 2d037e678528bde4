"""One turn, carried out: claimed, decided, sent, recorded, and gone on with after a crash."""
