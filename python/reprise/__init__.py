"""Marks for reprise, a recorder and planner of memory.

    import reprise

    for batch in batches:
        with reprise.iteration():
            train(batch)

    @reprise.iteration()
    def step(batch): ...

Each entry marks the beginning of an iteration in the calling thread. Nothing happens unless `reprise
record` or `reprise replay` started the program. `reprise info` counts marks, and `reprise plan --loop
marks` looks for loops between them. In C and C++: reprise/marks.h.
"""

import contextlib
import ctypes

__all__ = ["iteration"]

# What the preload library defines; None without it. PyDLL: the call is too short to give up the lock.
_begins = getattr(ctypes.PyDLL(None), "reprise_iteration_begins", None)
if _begins is not None:
    _begins.argtypes = ()
    _begins.restype = None


class iteration(contextlib.ContextDecorator):
    """An iteration of the program, as a context manager and as a decorator."""

    def __enter__(self):
        if _begins is not None:
            _begins()
        return self

    def __exit__(self, *_):
        return False
