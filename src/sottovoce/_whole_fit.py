"""Fits are whole: one at a time on an object, and a fit that ends early leaves the object as it was."""

import inspect
import os
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar, cast

import numpy as np

from sottovoce.exceptions import ParameterError

_Fit = TypeVar("_Fit", bound=Callable[..., Any])


_BEGIN = threading.Lock()
_BUSY: Final[dict[int, tuple[object, int]]] = {}  # object and thread by identity; held, so that no other gets it


def _forget_other_threads() -> None:
    """In a child: the fits of threads that do not exist there are over, and so is one that was about to begin."""
    global _BEGIN
    _BEGIN = threading.Lock()
    mine = threading.get_ident()
    for key, (_, thread) in list(_BUSY.items()):
        if thread != mine:
            del _BUSY[key]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


def whole_fit(fit: _Fit) -> _Fit:
    """Make a method ``fit`` whole: refused while another runs on the same object, and undone if it ends in an error.

    An interrupt could otherwise leave the classes of the new data beside the coefficients of the old.
    """
    takes = [name for name in inspect.signature(fit).parameters if name != "self"]

    @wraps(fit)
    def guarded(self: Any, *arguments: Any, **named: Any) -> Any:
        for name in named.keys() - set(takes):
            other = f"leave it out, or take an estimator that does. It takes {', '.join(takes)}."
            raise ParameterError(f"{type(self).__name__}.fit takes no {name}: {other}")
        taken = False  # by this fit; no context manager, in whose own lines an interrupt would leave it so for good
        try:
            with _BEGIN:
                if id(self) in _BUSY:
                    raise ParameterError(
                        f"this {type(self).__name__} is being fitted already, in another thread or further up. Give "
                        "each thread an estimator of its own: sklearn.base.clone(estimator)."
                    )
                _BUSY[id(self)], taken = (self, threading.get_ident()), True
            before = dict(vars(self))
            try:
                with np.errstate(all="ignore"):  # what NumPy was told to say, or raise, of a number would tell of a row
                    return fit(self, *arguments, **named)
            except BaseException as error:
                self.__dict__ = before
                if "guarantee_" in before:
                    error.add_note("This estimator still holds the model of its earlier fit, and that model's receipt.")
                raise
        finally:
            if taken:
                _BUSY.pop(id(self), None)

    return cast("_Fit", guarded)
