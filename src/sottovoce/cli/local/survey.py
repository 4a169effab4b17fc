"""``sottovoce local survey``: a page that asks, randomises in the browser and sends reports."""

from __future__ import annotations

from pathlib import Path

from sottovoce.cli._echo import echo
from sottovoce.cli._options import REQUIRED, ForceOption, flag, option
from sottovoce.cli.local._options import PROTOCOL, read_protocol

__all__ = ["survey"]


def survey(
    *,
    protocol: Path = PROTOCOL,
    out: Path = option("--out", "Folder for the page; made if it does not exist.", default=REQUIRED),
    wording: Path | None = option(
        "--wording", "Title, questions and choices in your words, in one language or more (TOML)."
    ),
    language: list[str] | None = option(
        "--language",
        "Language of the page: en, de or fr; repeat it, and visitors can choose. Default: those of --wording, else en.",
    ),
    invitation: bool = flag(
        "--invitation",
        "Refuse visitors without a link of an invitation, also if the collector takes any. A page whose "
        "collector has --token-key does it by itself.",
    ),
    force: ForceOption = False,
) -> None:
    """Write a survey page for PROTOCOL: answers are randomised in the browser, and only reports are sent.

    Serve it: `sottovoce local collect PROTOCOL --static FOLDER`.
    """
    from sottovoce.local.device.survey import write_survey
    from sottovoce.local.device.wording import read_wording, wording_of

    described = read_protocol(protocol)
    texts = (
        wording_of(described, language or ("en",))
        if wording is None
        else read_wording(wording, described, language or ())
    )
    texts["invitation"] = texts["invitation"] or invitation
    for path in write_survey(described, out, wording=texts, overwrite=force):
        echo(path)
