"""The files of a survey page, and the command that writes them."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sottovoce.cli.app import app
from sottovoce.exceptions import ParameterError
from sottovoce.local import CategoricalFeature, NumericFeature, Protocol
from sottovoce.local.device.survey import wording_of, write_survey

PROTOCOL = Protocol(
    features=[NumericFeature("âge", 0, 90), CategoricalFeature("work", ["a", "b"])], classes=[0, 1], epsilon=1.5
)
PAGE = {
    "element.js", "explanation.js", "index.html", "questions.js", "sottovoce-local.js", "survey.css", "survey.js",
    "survey.json",
}  # fmt: skip


def test_the_wording_has_every_question(tmp_path: Path) -> None:
    written = write_survey(PROTOCOL, tmp_path / "site")
    assert {path.name for path in written} == PAGE == {path.name for path in (tmp_path / "site").iterdir()}
    assert json.loads(written[-1].read_text(encoding="utf-8")) == {
        "title": "Survey",
        "introduction": "",
        "invitation": False,
        "max_epsilon": 1.5,
        "questions": {"âge": {"text": "âge"}, "work": {"text": "work", "choices": {"a": "a", "b": "b"}}},
        "label": {"text": "Outcome", "choices": {"0": "0", "1": "1"}},
    }


def test_the_wording_of_rows_of_numbers_and_of_a_number() -> None:
    wording = wording_of(Protocol(n_features=2, epsilon=1.0, task="regression", label_bounds=(0, 1)))
    assert wording["questions"] == {"x0": {"text": "Number 1"}, "x1": {"text": "Number 2"}}
    assert wording["label"] == {"text": "Outcome"}


def test_files_that_exist_are_kept(tmp_path: Path) -> None:
    (tmp_path / "survey.json").write_text("mine")
    with pytest.raises(ParameterError, match=r"survey\.json: the file exists"):
        write_survey(PROTOCOL, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["survey.json"]
    assert len(write_survey(PROTOCOL, tmp_path, overwrite=True)) == len(PAGE)
    with pytest.raises(ParameterError, match="does not exist"):
        write_survey(PROTOCOL, tmp_path / "no" / "folder")


def test_the_command(tmp_path: Path) -> None:
    protocol = tmp_path / "protocol.json"
    protocol.write_text(PROTOCOL.to_json())
    result = CliRunner().invoke(app, ["local", "survey", str(protocol), "--out", str(tmp_path / "site")])
    assert result.exit_code == 0, result.output
    assert {path.name for path in (tmp_path / "site").iterdir()} == PAGE


def test_the_page_loads_nothing_from_elsewhere() -> None:
    import sottovoce.local

    for path in (Path(sottovoce.local.__file__).parent / "web").iterdir():
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"https?://|//[a-z]|innerHTML|eval\(|document\.write", text.replace("{@link", "")), path
        assert "Math.random" not in text
