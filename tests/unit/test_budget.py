"""The budget of lines: what is over it is named, and only a person raises it."""

import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / ".ci" / "budget.py"
ROOMS = {"product": 3, "papers": 2, "tests": 1, "benchmarks": 0, "words_of_docs": 4}


@pytest.fixture
def budget(tmp_path):
    spec = importlib.util.spec_from_file_location("budget", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    files = {
        "src/sottovoce/a.py": "1\n2\n\n", "src/sottovoce/papers/one/b.py": "1\n2\n", "tests/unit/c.py": "1\n",
        "docs/d.md": "one two\nthree four\n", "docs/api/generated/e.md": "not counted\n",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    def run(*, lower=False, **allowed):
        toml = tmp_path / "budget.toml"
        toml.write_text("[budget]\n" + "".join(f"{room} = {size}\n" for room, size in (ROOMS | allowed).items()))
        return module.main(tmp_path, toml, lower=lower), toml.read_text()

    return run


def test_what_there_is_is_within_it(budget, capsys):
    assert budget()[0] is None
    assert "papers                2 of        2" in capsys.readouterr().out


def test_each_room_that_is_over_is_named(budget):
    wrong, _ = budget(papers=1, words_of_docs=2)
    assert wrong.startswith("over the budget: papers by 1, words_of_docs by 2. Take something out; or raise")


def test_numbers_are_lowered_and_never_raised(budget):
    wrong, text = budget(lower=True, product=10, tests=0)
    assert wrong.startswith("over the budget: tests by 1.")
    assert "product = 3\n" in text
    assert "tests = 0\n" in text


def test_a_room_that_is_not_known_is_refused(budget):
    assert "its rooms must be product, papers" in budget(attic=3)[0]
