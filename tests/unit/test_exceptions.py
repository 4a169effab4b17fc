"""The tree drawn in the docstring is the real one."""

import re
import warnings

import pytest

import sottovoce.exceptions as module
from sottovoce.exceptions import (
    AccountingError,
    DataError,
    ModelFormatError,
    ParameterError,
    PrivacyWarning,
    SchemaError,
    SottovoceError,
    SottovoceWarning,
    TableError,
)


def drawn_tree():
    """Read (name, parent, other bases) from the docstring: depth is the place of the name in its line."""
    tree, stack = [], []
    for line in module.__doc__.split("::", 1)[1].splitlines():
        match = re.match(r"(?P<lead>[ |+-]*)(?P<name>Sottovoce\w+|\w+(?:Error|Warning))\b(?P<rest>.*)", line)
        if not match or not line.startswith("    "):
            continue
        depth = len(match["lead"])
        while stack and stack[-1][0] >= depth:
            stack.pop()
        others = re.match(r" *\((?:also )?(\w+)\)", match["rest"])
        tree.append((match["name"], stack[-1][1] if stack else None, others[1] if others else None))
        stack.append((depth, match["name"]))
    return tree


def test_the_drawn_tree_is_complete():
    names = [name for name, _, _ in drawn_tree()]
    assert sorted(names) == sorted(module.__all__)
    defined = {name for name, value in vars(module).items() if isinstance(value, type)}
    assert defined == set(module.__all__)
    assert len(names) == len(set(names)) == 17


@pytest.mark.parametrize(("name", "parent", "other"), drawn_tree())
def test_the_drawn_tree_is_the_real_one(name, parent, other):
    bases = getattr(module, name).__bases__
    expected = ([parent] if parent else []) + ([other] if other else [])
    if name == "SottovoceError":
        expected = ["Exception"]
    assert [base.__name__ for base in bases] == expected


@pytest.mark.parametrize(
    "error", [ParameterError, DataError, TableError, SchemaError, ModelFormatError, AccountingError]
)
def test_every_error_is_ours_and_a_value_error(error):
    for caught in (error, SottovoceError, ValueError):
        with pytest.raises(caught, match="what and why"):
            raise error("what and why")


def test_warnings_can_be_told_apart():
    with pytest.warns(PrivacyWarning, match="weaker"):
        warnings.warn("weaker than it may look", PrivacyWarning, stacklevel=1)
    assert issubclass(PrivacyWarning, SottovoceWarning)
    assert issubclass(SottovoceWarning, UserWarning)
    assert not issubclass(SottovoceWarning, SottovoceError)
