"""``sottovoce local tokens``, ``survey`` and ``collect``: what people answer with, and the service that takes it."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path

from sottovoce._files import write_whole
from sottovoce.cli._echo import echo
from sottovoce.cli._options import FORCE, REQUIRED, command, flag, option, output, refuse_options
from sottovoce.cli.local._shared import DATABASE, PROTOCOL, read_protocol
from sottovoce.exceptions import ParameterError

_SERVICE = "Service"
_LIMITS = "Limits"
_OPERATOR = "For whoever runs it"
_HOST, _PORT = "127.0.0.1", 8001  # of the operator


@command
def tokens(
    *,
    protocol: Path = PROTOCOL,
    key: Path = option("--key", "File with the secret key of the tokens; made if it does not exist.", default=REQUIRED),
    count: int = option("--count", "How many.", default=REQUIRED, min=1),
    out: Path | None = output("--out", "Where to write them, one a line. Default: stdout."),
) -> None:
    """Issue device tokens: each entitles to one report. Give each person one, by a way that reaches only them."""
    from sottovoce.local.collector.tokens import TokenKey, make_secret_file

    described = read_protocol(protocol)
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
    force: bool = FORCE,
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


def collect(
    *,
    protocol: Path = PROTOCOL,
    database: str = DATABASE,
    host: str = option("--host", "Address to listen on.", _SERVICE, default="127.0.0.1"),
    port: int = option("--port", "0 takes a free one.", _SERVICE, default=8000, min=0, max=65_535),
    token_key: Path | None = option(
        "--token-key", "Accept only tokens issued with this key (`sottovoce local tokens`). Default: any.", _SERVICE
    ),
    allow_origin: list[str] | None = option(
        "--allow-origin", "Pages of this origin may post, such as https://survey.example.", _SERVICE, metavar="ORIGIN"
    ),
    static: Path | None = option("--static", "Folder with files to serve, such as a form.", _SERVICE),
    max_rate: float | None = option("--max-rate", "Reports a second, at most on average.", _LIMITS),
    max_connections: int = option("--max-connections", "Connections at the same time.", _LIMITS, default=512, min=1),
    max_batch: int = option("--max-batch", "Reports in one request.", _LIMITS, default=1_000, min=1, max=1_000),
    read_seconds: float = option("--read-seconds", "Within which a request must have arrived.", _LIMITS, default=10.0),
    operator_key: Path | None = option(
        "--operator-key",
        "Serve a page and /metrics on a port of their own, behind this key; made if missing.",
        _OPERATOR,
    ),
    operator_host: str = option("--operator-host", "Address of that port.", _OPERATOR, default=_HOST),
    operator_port: int = option(
        "--operator-port", "Never the one of devices; 0 takes a free one.", _OPERATOR, default=_PORT, min=0, max=65_535
    ),
    expected: int | None = option("--expected", "Reports planned for: shown there.", _OPERATOR, min=1),
    count_seconds: float = option(
        "--count-seconds", "Numbers that are told, also by /stats, change as seldom as this.", _OPERATOR, default=300.0
    ),
    count_step: int = option(
        "--count-step", "They are rounded down to a multiple of this; 1: exact.", _OPERATOR, default=10, min=1
    ),
) -> None:
    """Take reports for PROTOCOL over HTTP and keep them in a database, until interrupted.

    A report is acknowledged when it is on the disk. No address, no time and no token is stored or logged.
    """
    from sottovoce.local.collector.counts import Pace
    from sottovoce.local.collector.intake import Limits
    from sottovoce.local.collector.server import address_of, bind, serve
    from sottovoce.local.collector.service import make_apps
    from sottovoce.local.collector.storage import ReportStore
    from sottovoce.local.collector.tokens import TokenKey, make_secret_file, read_secret_file

    described = read_protocol(protocol)
    pace = Pace(seconds=count_seconds, step=count_step)
    limits = Limits(max_rate=max_rate, max_connections=max_connections, max_batch=max_batch, read_seconds=read_seconds)
    if operator_key is None:
        changed = {"--operator-host": operator_host != _HOST, "--operator-port": operator_port != _PORT}
        refuse_options("is for the operator's page: give --operator-key too", {"--expected": expected, **changed})
    elif operator_port == port != 0:
        raise ParameterError(f"--operator-port must be another one than --port; got {port} for both.")
    if static is not None and not static.is_dir():
        raise ParameterError(f"--static {static}: there is no such folder. Give the one with the pages to serve.")
    key = None if token_key is None else TokenKey.from_file(token_key, described.id)
    if key is None:
        echo(
            "note: any token is accepted, so one person can send as many reports as they like, and a few such persons "
            "ruin the model. For a real collection issue tokens and give --token-key.",
            err=True,
        )
    if operator_key is not None and not operator_key.exists():
        make_secret_file(operator_key, "operator key")
    with ExitStack() as stack:
        listener = stack.enter_context(closing(bind(host, port)))
        store = stack.enter_context(ReportStore(database, described, create=True))
        app, page = make_apps(
            described, store, token_key=key, limits=limits, allow_origins=allow_origin or (), static=static,
            pace=pace, expected=expected,
            operator_key=None if operator_key is None else read_secret_file(operator_key, "operator key"),
        )  # fmt: skip
        beside = None if page is None else stack.enter_context(closing(bind(operator_host, operator_port)))
        operator = None if page is None or beside is None else (page, beside)

        def tell(address: str) -> None:
            echo(f"listening on {address}")
            if operator is not None:
                echo(f"for the operator: {address_of(operator[1])} (any user name; the password: {operator_key})")

        serve(app, listener, limits, on_start=tell, operator=operator)
    echo("stopped; all that was acknowledged is stored")
