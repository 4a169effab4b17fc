"""The published algorithm under its old name."""

from sottovoce.local import bernstein as old
from sottovoce.published import bernstein as new


def test_both_names_give_the_same_objects():
    assert old.__all__ == new.__all__
    for name in new.__all__:
        assert getattr(old, name) is getattr(new, name)


def test_modules_inside_are_found_by_both_names():
    from sottovoce.published.bernstein import aggregator

    assert old.aggregator is aggregator
