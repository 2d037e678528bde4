"""Workers: runs of a shared database, carried out on many machines. Needs `upthread[postgres]`."""

from upthread.client.workers.worker import Served, WorkerOptions, serve

__all__ = ["Served", "WorkerOptions", "serve"]
