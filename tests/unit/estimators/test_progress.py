"""The progress bar: nothing unless asked, a line of numbers of steps below the cell of a notebook."""

import sys
import types

import numpy as np
import pytest
from rich.console import Console

import sottovoce as sv
from sottovoce.central.data.part import Part

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 2))
Y = np.where(X[:, 0] > 0, 1, 0)


class Handle:
    """What `display` returns: it keeps what was drawn."""

    def __init__(self):
        self.drawn = []

    def update(self, shown):
        self.drawn.append(shown)


@pytest.fixture
def notebook(monkeypatch):
    """A process that rich takes for a notebook's, with the two names that are used of IPython."""
    handle = Handle()

    def display(shown, display_id):
        assert display_id
        handle.update(shown)
        return handle

    shown = types.ModuleType("IPython.display")
    shown.HTML, shown.display = str, display
    parent = types.ModuleType("IPython")
    parent.display = shown
    monkeypatch.setitem(sys.modules, "IPython", parent)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    monkeypatch.setattr(Console, "is_jupyter", True, raising=False)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    return handle


def model(**changed):
    return sv.DPLogisticRegression(
        epsilon=1.0, delta=1e-4, data_norm=3.0, classes=[0, 1], solver="scd", random_state=0, **changed
    )


def test_a_notebook_shows_steps_below_the_cell(notebook):
    fitted = model(verbose=1).fit(X.copy(), Y)
    assert 2 <= len(notebook.drawn) <= 101
    steps = fitted.n_iter_
    assert notebook.drawn[-1] == f"DPLogisticRegression <progress value='{steps}' max='{steps}'></progress> " + (
        f"{steps} of {steps} steps"
    )


def test_a_notebook_shows_nothing_unless_asked(notebook):
    model().fit(X.copy(), Y)
    assert notebook.drawn == []


def test_no_terminal_no_bar(capfd):
    model(verbose=1).fit(X.copy(), Y)
    assert capfd.readouterr() == ("", "")


def test_who_holds_the_rows_stands_beside_the_name(notebook, monkeypatch):
    monkeypatch.setattr(Part, "status", lambda holder: "on 2 workers")
    model(verbose=1).fit(X.copy(), Y)
    assert all(shown.startswith("DPLogisticRegression on 2 workers <progress ") for shown in notebook.drawn)
