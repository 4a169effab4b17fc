"""The files of a survey page, and the command that writes them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import sottovoce.local
from sottovoce.cli.app import app
from sottovoce.exceptions import ParameterError
from sottovoce.local import CategoricalFeature, NumericFeature, Protocol
from sottovoce.local.device.survey import LANGUAGES, catalogue, read_wording, wording_of, write_survey

PROTOCOL = Protocol(
    features=[NumericFeature("âge", 0, 90), CategoricalFeature("work", ["a", "b"])], classes=[0, 1], epsilon=1.5
)
PAGE = {
    "element.js", "explanation.js", "index.html", "invitation.js", "languages/de.json", "languages/en.json",
    "languages/fr.json", "questions.js", "sottovoce-local.js", "survey.css", "survey.js", "survey.json", "words.js",
}  # fmt: skip
TEXTS = """
[survey]
language = "de"
invitation = true
title = { en = "Work", de = "Arbeit" }

[questions.work]
text = { en = "Where do you work?", de = "Wo arbeiten Sie?" }
none = false

[questions.work.choices]
a = { en = "At home", de = "Zu Hause" }

[label.choices]
1 = { en = "Yes", de = "Ja" }
"""


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_the_wording_has_every_question(tmp_path: Path) -> None:
    written = write_survey(PROTOCOL, tmp_path / "site")
    assert {path.relative_to(tmp_path / "site").as_posix() for path in written} == PAGE == names(tmp_path / "site")
    assert json.loads(written[-1].read_text(encoding="utf-8")) == {
        "title": "Survey",
        "introduction": "",
        "languages": ["en"],
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
    assert names(tmp_path) == {"survey.json"}
    assert len(write_survey(PROTOCOL, tmp_path, overwrite=True)) == len(PAGE)
    with pytest.raises(ParameterError, match="does not exist"):
        write_survey(PROTOCOL, tmp_path / "no" / "folder")


def run(tmp_path: Path, *options: str) -> dict[str, Any]:
    protocol = tmp_path / "protocol.json"
    protocol.write_text(PROTOCOL.to_json())
    command = ["local", "survey", str(protocol), "--out", str(tmp_path / "site"), "--force", *options]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert names(tmp_path / "site") == PAGE
    wording: dict[str, Any] = json.loads((tmp_path / "site" / "survey.json").read_text(encoding="utf-8"))
    return wording


def test_the_command(tmp_path: Path) -> None:
    assert run(tmp_path) == wording_of(PROTOCOL)
    made = run(tmp_path, "--language", "fr", "--invitation")
    assert (made["languages"], made["title"], made["invitation"]) == (["fr"], "Enquête", True)
    made = run(tmp_path, "--language", "fr", "--language", "de")
    assert (made["languages"], made["label"]["text"]) == (["fr", "de"], {"fr": "Résultat", "de": "Ergebnis"})


def test_texts_of_ones_own(tmp_path: Path) -> None:
    texts = tmp_path / "wording.toml"
    texts.write_text(TEXTS, encoding="utf-8")
    made = run(tmp_path, "--wording", str(texts))
    assert (made["languages"], made["invitation"]) == (["de", "en"], True)  # the survey's own first
    assert made["title"] == {"de": "Arbeit", "en": "Work"}
    work = made["questions"]["work"]
    assert work["text"] == {"de": "Wo arbeiten Sie?", "en": "Where do you work?"}
    assert work["choices"] == {"a": {"de": "Zu Hause", "en": "At home"}, "b": "b"}
    assert work["none"] is None
    assert made["questions"]["âge"] == {"text": "âge"}
    assert made["label"]["choices"] == {"0": "0", "1": {"de": "Ja", "en": "Yes"}}
    made = run(tmp_path, "--wording", str(texts), "--language", "en")
    assert (made["languages"], made["title"], made["questions"]["work"]["text"]) == (
        ["en"],
        "Work",
        "Where do you work?",
    )


@pytest.mark.parametrize("languages", [["de"], ["fr", "de"]])
def test_a_question_that_nobody_wrote_is_told(tmp_path: Path, languages: list[str]) -> None:
    outcome = {"de": "Ergebnis", "fr": "Résultat"}[languages[0]]
    (tmp_path / "protocol.json").write_text(PROTOCOL.to_json())
    command = ["local", "survey", str(tmp_path / "protocol.json"), "--out", str(tmp_path / "site"), "--force"]
    command += [word for language in languages for word in ("--language", language)]
    for written in ("", "text = 'Well?'", "text = { de = 'Gut?', fr = 'Bien ?' }", "hint = 'a'"):
        (tmp_path / "wording.toml").write_text(f"[label]\n{written}\n", encoding="utf-8")
        result = CliRunner().invoke(app, [*command, "--wording", str(tmp_path / "wording.toml")])
        assert result.exit_code == 0, result.output
        assert (f'the page asks "{outcome}" for what is predicted' in result.output) == ("text" not in written)


def test_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file and its commands; the service is started by tests/end_to_end/test_survey_invitations.py."""
    guide = (Path(__file__).parents[3] / "docs/guide/local_survey.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    protocol = Protocol(
        features=[NumericFeature("age", 18, 90), CategoricalFeature("work", ["private", "public"])],
        classes=["no", "yes"],
        epsilon=2.0,
    )
    Path("protocol.json").write_text(protocol.to_json())
    Path("wording.toml").write_text(re.findall(r"```toml\n(.*?)```", guide, re.DOTALL)[0], encoding="utf-8")
    survey, tokens, collect = map(str.split, re.findall(r"```sh\n(.*?)```", guide, re.DOTALL)[0].splitlines())
    for command in (survey, tokens, [*collect[:3], "--help"]):
        result = CliRunner().invoke(app, command[1:])
        assert result.exit_code == 0, result.output
    made = json.loads(Path("site/survey.json").read_text(encoding="utf-8"))
    assert made["languages"] == list(LANGUAGES)
    assert made["questions"]["work"]["choices"]["private"]["fr"] == "Dans une entreprise"
    assert all(len(token) == 48 for token in Path("tokens.txt").read_text().split())


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        ("[survey", "this is not TOML"),
        ("[surveys]", r"the file has an entry 'surveys' .*Known: survey, questions, label"),
        ("[questions.age]", r"\[questions\] has an entry 'age' .*Known: âge, work"),
        ("[questions.work]\nmissing_text = 'x'", r"\[questions.work\] has an entry 'missing_text'"),
        ("[questions.'âge']\nchoices = {}", r"\[questions.âge\] has an entry 'choices'"),
        ("[label.choices]\n2 = 'x'", r"\[label\] choices has an entry '2' .*Known: 0, 1"),
        ("[label]\ntext = 1", r"\[label\] text must be a text"),
        ("[survey]\ntitle = { xx = 'x' }", r"\[survey\] title has an entry 'xx' .*Known: en, de, fr"),
        ("[survey]\ntitle = { de = 'x' }\n[label]\ntext = { fr = 'y' }", r"\[survey\] title has no text in 'fr'"),
        ("[survey]\nlanguage = 'xx'", r"language must be one of en, de, fr; got 'xx'"),
        ("[survey]\ninvitation = 'no'", r"invitation must be true or false; got 'no'"),
        ("label = 3", r"\[label\] must be a table"),
        ("[survey]\ntitle = 3", r"\[survey\] title must be a text"),
    ],
)  # fmt: skip
def test_texts_that_cannot_be_meant(tmp_path: Path, texts: str, told: str) -> None:
    path = tmp_path / "wording.toml"
    path.write_text(texts, encoding="utf-8")
    with pytest.raises(ParameterError, match=rf"wording\.toml: .*{told}"):
        read_wording(path, PROTOCOL)


def test_choices_named_like_languages_are_no_languages(tmp_path: Path) -> None:
    spoken = Protocol(features=[CategoricalFeature("speaks", ["de", "fr"])], classes=[0, 1], epsilon=1.0)
    path = tmp_path / "wording.toml"
    path.write_text("[questions.speaks.choices]\nde = 'German'\nfr = 'French'")
    assert read_wording(path, spoken)["languages"] == ["en"]


def placeholders(entry: str | dict[str, str]) -> list[tuple[str, tuple[str, ...]]]:
    forms = {"": entry} if isinstance(entry, str) else entry
    return [(form, tuple(sorted(set(re.findall(r"\{(\w+)\}", text)) - {"count"}))) for form, text in forms.items()]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_all_words(language: str) -> None:
    english, words = catalogue("en"), catalogue(language)
    assert list(words) == list(english)
    for key, entry in words.items():
        assert placeholders(entry) == placeholders(english[key]), key
        for text in [entry] if isinstance(entry, str) else entry.values():
            assert text.strip() == text != "", key
            assert language == "en" or text not in (english[key], *_forms(english[key])) or key in SAME, key
            assert not re.search(r"[{}]", re.sub(r"\{\w+\}", "", text)), key
    # a narrow or no-break space before the French signs, so that no line begins with one
    assert language != "fr" or not re.search(r" [:;!?»]", json.dumps(words, ensure_ascii=False).replace('": ', ""))


SAME = {"bytes", "bytes-column"}  # 22 Bytes


def _forms(entry: str | dict[str, str]) -> tuple[str, ...]:
    return () if isinstance(entry, str) else tuple(entry.values())


def test_the_page_uses_the_words_that_there_are() -> None:
    web = Path(sottovoce.local.__file__).parent / "web"
    page = "".join(path.read_text(encoding="utf-8") for path in web.iterdir() if path.is_file())
    shown = set(re.findall(r'data-words="([^"]+)"', page))
    assert shown <= set(catalogue("en"))
    unused = {key for key in catalogue("en") if f'"{key}"' not in page} - {"outcome"}
    assert unused == set()


def test_the_page_loads_nothing_from_elsewhere_and_draws_from_the_systems_bits():
    for path in (Path(sottovoce.local.__file__).parent / "web").rglob("*.*"):
        text = path.read_text(encoding="utf-8").replace("{@link", "")
        assert not re.search(r"https?://|//[a-z]|innerHTML|eval\(|document\.write|Math\.random", text), path
