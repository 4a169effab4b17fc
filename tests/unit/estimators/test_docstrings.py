"""What `help` shows of the estimators: every parameter, and one text for what several of them share."""

import inspect
import pydoc
import re
from collections import defaultdict

import pytest

import sottovoce
from sottovoce import vertical

CENTRAL = [getattr(sottovoce, name) for name in sottovoce.__all__ if name.startswith("DP")]
VERTICAL = [getattr(vertical, name) for name in vertical.__all__ if name.startswith("Vertical")]
SECTION = re.compile(r"^(\w+)\n-{3,}\n", re.MULTILINE)
ENTRY = re.compile(r"^(\w+) : (.+?)(?:, default (.+))?\n((?: {4}.+\n?)*)", re.MULTILINE)
ORDER = ["Parameters", "Attributes", "Raises", "Notes", "References", "Examples"]
BY_PLACE = {
    sottovoce.DPSearchCV: {"estimator": None, "param_distributions": {}},
    sottovoce.DPPipeline: {"steps": []},
}
# how many texts a name has among the central estimators, where they mean different things by it
SEVERAL = {
    "epsilon": 3,  # of one fit, of a whole search, of a whole pipeline
    "alpha": 2,  # its default and what "auto" takes, for ridge and for classification
    "fit_intercept": 2,  # a constant column of a size that can be chosen, or of the size of the bound on entries
    "max_iter": 2,
    "tol": 2,
    "solver": 3,
    "solver_options": 3,
    "coef_": 2,  # of one model, of one for each class
    "intercept_": 2,
    "n_iter_": 2,
}


def sections(kind):
    title, *parts = SECTION.split(inspect.getdoc(kind))
    return {"": title, **dict(zip(parts[::2], parts[1::2], strict=True))}


def entries(kind, section):
    return {name: (what, " ".join(text.split())) for name, what, _, text in ENTRY.findall(sections(kind)[section])}


@pytest.mark.parametrize("kind", [*CENTRAL, *VERTICAL])
def test_help_shows_every_parameter_with_its_default_and_a_text(kind):
    shown = pydoc.render_doc(kind, renderer=pydoc.plaintext)
    signature = inspect.signature(kind).parameters
    documented = entries(kind, "Parameters")
    assert list(documented) == list(signature)
    first = list(BY_PLACE.get(kind, {"epsilon": None}))
    assert list(signature)[: len(first)] == first
    for name, (what, text) in documented.items():
        assert f" |  {name} : {what}" in shown
        assert text.endswith((".", ").")), (name, text)
        default = signature[name].default
        if default not in (inspect.Parameter.empty, None):
            assert f" |  {name} : {what}, default {str(default) if not isinstance(default, str) else ''}" in shown
    for name, (_, text) in entries(kind, "Attributes").items():
        assert f" |  {name} : " in shown
        assert name.endswith("_") and (not text or text.endswith("."))
    found = [name for name in sections(kind) if name]
    assert found == sorted(found, key=ORDER.index) and found[:2] == ORDER[:2]


@pytest.mark.parametrize("kind", [*CENTRAL, *VERTICAL])
def test_parameters_are_those_of_scikit_learn(kind):
    made = kind(**BY_PLACE.get(kind, {}))
    assert set(made.get_params(deep=False)) == set(inspect.signature(kind).parameters)
    assert vars(made) == made.get_params(deep=False)
    assert kind not in CENTRAL or sum(each.__module__.startswith("sottovoce") for each in kind.__mro__[1:]) <= 4


@pytest.mark.parametrize("section", ["Parameters", "Attributes"])
def test_what_central_estimators_share_has_one_text(section):
    texts = defaultdict(set)
    for kind in CENTRAL:
        for name, said in entries(kind, section).items():
            texts[name].add(said)
    several = {name: len(found) for name, found in texts.items() if len(found) > 1}
    assert several == {name: count for name, count in SEVERAL.items() if name in texts}
    assert len(texts) > 8
