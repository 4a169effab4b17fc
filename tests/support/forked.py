"""Work in a forked child: what a fork shares, and what a full disk refuses."""

import os
import warnings

import pytest

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")


def in_child(work, *, largest_file=None):
    """Return the bytes that ``work()`` returns in a forked child, where no file may be longer than this."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
        child = os.fork()
    if child == 0:
        code = 1
        try:
            if largest_file is not None:  # the next byte is refused by the system, as on a full disk
                import resource

                resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
            os.write(write, work())
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return answer
