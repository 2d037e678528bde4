"""Which ports are listened on, as the kernel tells it."""

from collections.abc import Iterable
from pathlib import Path

LISTEN = "0A"
TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


def listening() -> dict[str, int]:
    """The ports that are listened on, by the inode of their socket."""
    found: dict[str, int] = {}
    for table in map(Path, TABLES):
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            fields = line.split()
            if fields[3] == LISTEN:
                found[fields[9]] = int(fields[1].rpartition(":")[2], 16)
    return found


def listening_of(pids: Iterable[int]) -> dict[str, int]:
    """The ports that these processes listen on, by the inode of their socket.

    A port that is free again may be anybody's the next moment; a socket's inode is one socket's.
    """
    ports = listening()
    held: dict[str, int] = {}
    for pid in pids:
        try:
            links = [str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            continue
        inodes = {link[8:-1] for link in links if link.startswith("socket:[")}
        held |= {inode: ports[inode] for inode in inodes & ports.keys()}
    return held
