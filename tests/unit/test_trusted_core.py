"""The trusted core stays by itself: what draws, makes an event or is imported from outside turns the check red."""

import importlib.util
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATH = ROOT / ".ci" / "trusted.py"


@pytest.fixture(scope="module")
def trusted():
    spec = importlib.util.spec_from_file_location("trusted", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def copy(tmp_path):
    """A copy of the source, the list and its page."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "trusted.toml", tmp_path / ".ci")
    (tmp_path / "docs" / "privacy").mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "privacy" / "trusted_core.md", tmp_path / "docs" / "privacy")
    return tmp_path


def added(root, file, text):
    path = root / "src" / "sottovoce" / file
    path.write_text((path.read_text() if path.exists() else "") + text)
    return root


def test_it_holds(trusted):
    assert trusted.main(ROOT) is None


DEEDS = {
    "draws by standard_normal": "def peek(rng):\n    return rng.standard_normal(3)",
    "opens the stream for noise": "def peek(streams):\n    return streams.generator(Purpose.NOISE)",
    "makes a GaussianEvent": "COST = GaussianEvent(1.0)",
    "makes a RepeatedEvent": "COST = events.RepeatedEvent(one, 3)",
}


@pytest.mark.parametrize("file", ["central/solvers/newton.py", "estimators/linear.py", "cluster/new.py"])
def test_only_the_door_draws_and_makes_events(trusted, copy, file):
    wrong = trusted.main(added(copy, file, "".join(f"\n\n{text}\n" for text in DEEDS.values()))).splitlines()
    for deed in DEEDS:
        assert [line for line in wrong if file in line and deed in line and "yield a Release" in line], deed


def test_a_trusted_file_imports_no_other(trusted, copy):
    line = "\nfrom sottovoce.central.solvers.newton import NewtonPlan\n"
    wrong = trusted.main(added(copy, "central/core.py", line))
    assert "central/core.py is trusted and imports central.solvers.newton.NewtonPlan, which is not" in wrong


def test_it_stays_short_enough_for_a_day(trusted, copy):
    wrong = trusted.main(added(copy, "central/core.py", "\n" + "x = 1\n" * 4000))
    assert "more than 4,000" in wrong


def test_the_page_leads_through_all_of_it(trusted, copy):
    page = copy / "docs" / "privacy" / "trusted_core.md"
    page.write_text(page.read_text().replace("`central/core.py`", "the loop"))
    assert "central/core.py" in trusted.main(copy)


@pytest.mark.parametrize(
    ("text", "lines"), [('"""A text."""\n\nimport math\n\n# why\nx = 1\n', 1), ("def f():\n    return 1\n", 2)]
)
def test_lines_of_code_are_counted_without_words_about_them(trusted, text, lines):
    assert trusted.lines_of_code(text) == lines
