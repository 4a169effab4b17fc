"""``sottovoce local survey``: a page that asks, randomises in the browser and sends reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sottovoce.cli._options import ForceOption
from sottovoce.cli.local._options import ProtocolArgument, read_protocol

__all__ = ["survey"]


def survey(
    protocol: ProtocolArgument,
    out: Annotated[Path, typer.Option("--out", help="Folder for the page; made if it does not exist.")],
    force: ForceOption = False,
) -> None:
    """Write a survey page for PROTOCOL: answers are randomised in the browser, and only reports are sent.

    Edit survey.json in the folder for the wording, then serve it: `sottovoce local collect PROTOCOL --static FOLDER`.
    """
    from sottovoce.local.device.survey import write_survey

    for path in write_survey(read_protocol(protocol), out, overwrite=force):
        typer.echo(path)
