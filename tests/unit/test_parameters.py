"""Parameters and fitted attributes that are declared once: constructor, signature, docstring."""

import inspect
import itertools
import pickle

import pytest
from sklearn.base import BaseEstimator, clone

from sottovoce._parameters import Budgeted, attribute, estimator, parameter


@estimator
class Base(Budgeted, BaseEstimator):
    """A base."""

    tol: float = parameter("float, > 0", default=1e-7, text="When to stop.")
    coef_: float = attribute("ndarray of shape (n_features,)")
    n_iter_: int = attribute("int", "Passes.")


@estimator
class Derived(Base):
    """Do it.

    In one-vs-rest form.

    Raises
    ------
    ValueError
    """

    solver: str = parameter("str", default="auto", text="A long text, " * 12 + "which is one-vs-rest.")
    classes: list | None = parameter("list or None", default=None, text="Public.")
    radius: float | None = parameter("float, > 0", default=None, text="Public.")
    tol: float = parameter("float, > 0", default=1e-3, text="When to stop, in steps.")
    coef_: float = attribute("ndarray of shape (1, n_features)")


@estimator
class Last(Derived):
    """Do it again."""

    tol: float = parameter(default=1e-2)
    radius: float | None = parameter(default=None, text="Another one.")
    n_iter_: int = attribute(text="Steps.")


@estimator
class Around(Budgeted, BaseEstimator):
    """Around another one."""

    inner: Base = parameter("Base", text="By its place.", kw_only=False)


def test_the_constructor_stores_what_it_is_given_and_nothing_else():
    made = Derived(epsilon=1.0, solver="x")
    assert vars(made) == made.get_params() == {**Derived().get_params(), "epsilon": 1.0, "solver": "x"}
    assert Base().get_params() == dict.fromkeys(Budgeted.__dataclass_fields__) | {"tol": 1e-7}
    assert Derived().tol == 1e-3
    assert not hasattr(made, "coef_") and not hasattr(Derived, "tol")
    assert Around(made).inner is made and Around(inner=made).inner is made


def test_copies_are_made_and_shown_as_by_scikit_learn():
    made = Derived(epsilon=1.0)
    assert repr(made) == repr(clone(made)) == repr(pickle.loads(pickle.dumps(made))) == "Derived(epsilon=1.0)"
    assert made != clone(made) and len({made, made}) == 1


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Derived(coef_=1.0), "coef_"),
        (lambda: Derived(raduis=1.0), "raduis"),
        (lambda: Derived(1.0), "positional"),
        (lambda: Around(), "inner"),
    ],
)
def test_other_arguments_are_refused(make, named):
    with pytest.raises(TypeError, match=named):
        make()


def test_the_signature_begins_with_what_has_to_be_given_and_ends_with_what_all_have():
    budget = ["random_state", "ledger", "dataset", "accept_delta"]
    assert list(inspect.signature(Derived).parameters) == [
        "epsilon", "delta", "radius", "solver", "classes", "tol", *budget,
    ]  # fmt: skip
    assert list(inspect.signature(Around).parameters) == ["inner", "epsilon", "delta", *budget]
    assert inspect.signature(Derived).parameters["tol"].default == 1e-3


def test_the_docstring_has_the_sections():
    lines = inspect.getdoc(Derived).splitlines()
    headings = [line for line, below in itertools.pairwise(lines) if set(below) == {"-"}]
    assert headings == ["Parameters", "Attributes", "Raises"]
    assert lines[:3] == ["Do it.", "", "In one-vs-rest form."]
    assert "epsilon : float, > 0" in lines
    assert 'solver : str, default "auto"' in lines
    assert "classes : list or None, default None" in lines
    assert "coef_ : ndarray of shape (1, n_features)" in lines
    assert lines[lines.index("tol : float, > 0, default 0.001") + 1] == "    When to stop, in steps."
    assert lines[lines.index("n_iter_ : int") + 1] == "    Passes."
    assert any(line.endswith("one-vs-rest.") for line in lines[4:])
    assert max(map(len, lines)) <= 116


def test_a_subclass_says_only_what_differs():
    lines = inspect.getdoc(Last).splitlines()
    for head, text in (
        ("tol : float, > 0, default 0.01", "When to stop, in steps."),
        ("radius : float, > 0", "Another one."),
        ("n_iter_ : int", "Steps."),
    ):
        assert lines[lines.index(head) + 1] == f"    {text}"
    assert Last().tol == 1e-2
    assert list(inspect.signature(Last).parameters) == list(inspect.signature(Derived).parameters)


def test_of_two_bases_the_one_that_changes_a_default_comes_first():
    @estimator
    class Other(Base):
        """Another one."""

        coef_: float = attribute("float", "One.")

    @estimator
    class Both(Last, Other):
        """Both."""

    assert Both().tol == Last().tol
    with pytest.raises(TypeError, match="Wrong: the base that says what tol is must come first"):

        @estimator
        class Wrong(Other, Last):
            """Both."""
