"""Laws over all commands: help by topic at 80 columns, JSON for programs, and one line where something is wrong."""

import re
import subprocess
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from sottovoce._parameters import parameters
from sottovoce.cli import app
from sottovoce.cli._models import MODELS
from sottovoce.cli.app import as_options
from sottovoce.cli.vertical._training import MODELS as VERTICAL
from support.commands import commands

ALL = dict(commands())
# what these print is a document, or they run until they are stopped
WITHOUT_JSON = {
    ("predict",): "CSV", ("local", "predict"): "CSV", ("schema",): "TOML", ("proof",): "Markdown",
    ("ledger", "export"): "JSON lines", ("local", "tokens"): "lines", ("local", "survey"): "a page's files",
    ("local", "collect"): "a service", ("vertical", "coordinator"): "a service", ("compile",): "nothing but the time",
}  # fmt: skip
ONE_LINE = [
    (["fit", "t.csv", "--model", "svm", "--out", "m.json"], "--epsilon is missing", "sottovoce fit t.csv --model svm"),
    (["fit"], "TABLE is missing", "--epsilon 1 --delta 1e-6 --schema schema.toml"),
    (["fit", "t.csv", "--epsilon", ".5", "--schema", "s"], "--out is missing",
     "--out model.json --schema s --epsilon 0.5 --delta 1e-6"),
    (["plan", "--epsilon", "1", "--n-features", "3"], "--n-samples is missing",
     "--n-samples 10000 --n-features 3 --delta 1e-6"),
    (["local", "protocol"], "--epsilon is missing", "--out protocol.json --n-expected 10000 --schema schema.toml"),
    (["fit", "t.csv", "--epsilon", "one"], "--epsilon must be a valid number", "got 'one'"),
    (["fit", "t.csv", "--skip-rows", "-1"], "--skip-rows must be", "got '-1'"),
    (["plan", "--model", "svm", "--epsilon", "1", "--n-samples", "9", "--n-features", "2"], "--delta is missing",
     "1 / n_samples"),
    (["fit", "t.csv", "--C", "1"], "no option --C", "--alpha A: alpha is 1 / (C n)"),
    (["fit", "t.csv", "--penalty", "l1"], "no option --penalty", "lasso and sparse-logistic"),
    (["fit", "t.csv", "--l1_ratio", "1"], "no option --l1_ratio", "--radius"),
    (["plan", "--eps", "1"], "no option --eps", "--epsilon E"),
    (["schema", "t.csv", "--sep", ";"], "no option --sep", "Type --delimiter ';'"),
    (["fit", "t.csv", "--epsilom", "1"], "no option --epsilom", "Did you mean --epsilon?"),
    (["evaluate", "m", "t", "--seed", "1"], "no option --seed", "--random-state N"),
    (["fit", "t.csv", "--model", "logit"], "--model: 'logit' is not one of", "Did you mean 'logistic'?"),
    (["--fit"], "no option --fit", "--help"),
    (["fit", "a b.csv", "--no-intercept"], "--out is missing",
     "fit 'a b.csv' --out model.json --epsilon 1 --no-intercept"),
    (["local", "collect", "--database", "postgresql://a:se@cret@h/x"], "PROTOCOL is missing",
     "--database postgresql://a@h/x"),
    (["schema", "t.csv", "y"], "'y' follows no option that takes it", "sottovoce schema --help"),
    (["forecast"], "No such command 'forecast'", "sottovoce --help"),
    (["fitt"], "No such command 'fitt'", "Did you mean 'fit'?"),
    (["local", "rotocol"], "No such command 'rotocol'", "Did you mean 'protocol'?"),
]  # fmt: skip


def run(*words, width="80"):
    return CliRunner(env={"COLUMNS": width, "TERMINAL_WIDTH": width, "SOTTOVOCE_LEDGER": None}).invoke(app, list(words))


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_help_is_eighty_columns_of_topics(words):
    shown = run(*words, "--help").output
    assert max(map(len, shown.splitlines())) <= 80
    options = [one for one in ALL[words].params if one.param_type_name == "option" and one.name != "help"]
    for one in options:
        assert one.opts[0] in shown
        assert one.help, one.opts
    assert len(options) <= 12 or all(one.rich_help_panel for one in options), "a long list has headings"


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_what_a_program_would_read_is_json(words):
    has = any("--json" in one.opts for one in ALL[words].params)
    assert has == (words not in WITHOUT_JSON)


@pytest.mark.parametrize(("words", "wrong", "typed"), ONE_LINE, ids=[" ".join(words) for words, _, _ in ONE_LINE])
def test_wrong_use_is_one_line_that_says_what_to_type(words, wrong, typed):
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert wrong in line
    assert typed in line


@pytest.mark.parametrize(("models", "command"), [(MODELS, ("fit",)), (VERTICAL, ("vertical", "train"))])
def test_options_say_what_the_estimators_say(models, command):
    """Each sentence of a parameter that is no Python stands in the help of its option."""
    options = {one.name: one for one in ALL[command].params}
    told = 0
    for estimator in models.classes.values():
        for name, one in parameters(estimator).items():
            if name not in options or name in ("solver", "tol", "mechanism"):
                continue
            sentences = re.split(r"(?<=\.) ", " ".join(one.text.split()))
            for sentence in sentences:
                if not re.search(r"[`\[]|\bNone\b", sentence):
                    assert sentence in options[name].help, (name, sentence)
                    told += 1
    assert told > 20


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("give overwrite=True to replace it.", "give --force to replace it."),
        ("give header=False, or header = false in [table].", "give --no-header, or header = false in [table]."),
        ('give delimiter="...".', "give --delimiter."),
        ('format="csv" or format="parquet"', "--format csv or --format parquet"),
        ("Fit with groups=... and max_rows_per_group=...", "Fit with --unit COLUMN and --max-rows-per-unit K"),
        ("same_unit=True, another_run=True", "--same-unit, --another-run"),
        ('write type = "ignore", adjacency="zero-out"', 'write type = "ignore", adjacency="zero-out"'),
    ],
)
def test_messages_name_options(said, shown):
    assert as_options(said) == shown


@pytest.mark.parametrize("group", [(), *sorted({words[:-1] for words in ALL if len(words) > 1})], ids=" ".join)
def test_a_list_of_commands_has_their_texts_and_loads_none(group):
    line = f"import sys; from sottovoce.cli import app; app({[*group, '--help']}, standalone_mode=False)"
    loads = "print({'numpy', 'rich', 'sklearn', 'sottovoce.tables'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", f"{line}; {loads}"], capture_output=True, text=True, check=True)
    *shown, loaded = done.stdout.splitlines()
    assert loaded == "set()"
    listed = get_command(app)
    for name in group:
        listed = listed.get_command(None, name)
    for name in listed.list_commands(None):
        about = listed.get_command(None, name).help.partition("\n\n")[0]
        assert " ".join([name, *about.split()]) in " ".join(" ".join(shown).split())
