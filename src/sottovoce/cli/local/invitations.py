"""``sottovoce local tokens`` and ``survey``: what people are given to answer with."""

from __future__ import annotations

from pathlib import Path

from sottovoce._files import check_writable, write_whole
from sottovoce.cli._echo import echo
from sottovoce.cli._options import REQUIRED, ForceOption, flag, option
from sottovoce.cli.local._options import PROTOCOL, read_protocol


def tokens(
    *,
    protocol: Path = PROTOCOL,
    key: Path = option("--key", "File with the secret key of the tokens; made if it does not exist.", default=REQUIRED),
    count: int = option("--count", "How many.", default=REQUIRED, min=1),
    out: Path | None = option("--out", "Where to write them, one a line. Default: stdout."),
    force: ForceOption = False,
) -> None:
    """Issue device tokens: each entitles to one report. Give each person one, by a way that reaches only them."""
    from sottovoce.local.collector.tokens import TokenKey, make_secret_file

    described = read_protocol(protocol)
    if out is not None:
        check_writable("--out", out, overwrite=force)
    if not key.exists():
        make_secret_file(key, "token key")
        echo(f"note: a new key in {key}. Keep it secret: whoever has it can send reports without end.", err=True)
    issuer = TokenKey.from_file(key, described.id)
    text = "".join(f"{issuer.issue()}\n" for _ in range(count))
    if out is None:
        echo(text, nl=False)
    else:
        write_whole(out, text, private=True)


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
    from sottovoce.local.device.survey import read_wording, wording_of, write_survey

    described = read_protocol(protocol)
    texts = (
        wording_of(described, language or ("en",))
        if wording is None
        else read_wording(wording, described, language or ())
    )
    texts["invitation"] = texts["invitation"] or invitation
    for path in write_survey(described, out, wording=texts, overwrite=force):
        echo(path)
    asked = texts["label"]["text"]
    if asked == wording_of(described, texts["languages"])["label"]["text"]:
        word = asked if isinstance(asked, str) else next(iter(asked.values()))
        echo(
            f'note: the page asks "{word}" for what is predicted: a protocol does not name it. Write the question in '
            f"{out / 'survey.json'}, or give --wording.",
            err=True,
        )
