"""``sottovoce local survey``: a page that asks, randomises in the browser and sends reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sottovoce.cli._echo import echo
from sottovoce.cli._options import ForceOption
from sottovoce.cli.local._options import ProtocolArgument, read_protocol

__all__ = ["survey"]


def survey(
    protocol: ProtocolArgument,
    out: Annotated[Path, typer.Option("--out", help="Folder for the page; made if it does not exist.")],
    wording: Annotated[
        Path | None,
        typer.Option("--wording", help="Title, questions and choices in your words, in one language or more (TOML)."),
    ] = None,
    language: Annotated[
        list[str] | None,
        typer.Option(
            "--language",
            help="Language of the page: en, de or fr; repeat it, and visitors can choose. Default: those of --wording, "
            "else en.",
        ),
    ] = None,
    invitation: Annotated[
        bool,
        typer.Option(
            "--invitation",
            help="Refuse visitors without a link of an invitation, also if the collector takes any. A page whose "
            "collector has --token-key does it by itself.",
        ),
    ] = False,
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
