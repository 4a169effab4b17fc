"""What simulations, trainings and predictions over parties print alike."""

from collections.abc import Mapping, Sequence

from sottovoce.cli._echo import echo
from sottovoce.cli._output import print_columns, print_rows
from sottovoce.privacy.guarantee import Guarantee


def print_training(
    facts: Sequence[tuple[str, str]], rounds: int, up: int, down: int, guarantee: Guarantee,
    given_away: Mapping[str, str],
) -> None:  # fmt: skip
    """Print what a training was, its receipt, and what each party gives away."""
    print_rows("Training", [
        *facts, ("rounds", f"{rounds:,}"), ("bytes up, from the parties", f"{up:,}"),
        ("bytes down, to the parties", f"{down:,}"),
    ])  # fmt: skip
    print_rows("Receipt", guarantee.rows())
    print_rows("What each party gives away by itself", list(given_away.items()))


def print_comparison(
    title: str, local: Mapping[str, float], joint: Mapping[str, float], name: str, *verdict: str
) -> None:
    """Print how good the joint model is, beside that of the label holder where one was trained."""
    print_columns(title, ["", f"{name} alone", "joint"] if local else ["", "joint"], [
        (measure, *([f"{local[measure]:.4f}"] if local else []), f"{value:.4f}") for measure, value in joint.items()
    ])  # fmt: skip
    for text in verdict:
        echo(text)
    echo("NOT PRIVATE: these figures are computed from the labels of these people, without noise.")
