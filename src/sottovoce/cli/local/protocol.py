"""``sottovoce local protocol``: write the public parameters of a collection."""

from __future__ import annotations

from pathlib import Path

from sottovoce._files import check_writable, write_whole
from sottovoce.cli._options import JSON, REQUIRED, ForceOption, option, refuse_options
from sottovoce.cli._output import print_json, print_rows
from sottovoce.cli._parse import parse_bounds, parse_classes
from sottovoce.cli._rows import confirmed_schema
from sottovoce.cli.local._features import protocol_arguments
from sottovoce.cli.local._options import MAY_BE_MISSING, SCHEMA, TARGET
from sottovoce.exceptions import ParameterError
from sottovoce.local import Protocol

__all__ = ["protocol"]


def protocol(
    *,
    epsilon: float = option("--epsilon", "Privacy loss of one report.", default=REQUIRED),
    out: Path = option("--out", "Where to write the protocol (JSON).", default=REQUIRED),
    n_expected: int = option("--n-expected", "Public: about how many reports will come.", default=REQUIRED),
    schema: Path | None = SCHEMA,
    target: str | None = TARGET,
    missing: bool = MAY_BE_MISSING,
    n_features: int | None = option("--n-features", "Instead of a schema: rows of so many numbers."),
    classes: str | None = option("--classes", "With --n-features: the two labels. Default: -1,1."),
    label_bounds: str | None = option("--label-bounds", "With --n-features: bounds of a label that is a number."),
    scale: float | None = option("--scale", "With --n-features: public bound on the norm of a row. Default: 1."),
    force: ForceOption = False,
    as_json: bool = JSON,
) -> None:
    """Write the public parameters of a collection: what devices send, and what it may reveal."""
    check_writable("--out", out, overwrite=force)
    if schema is not None:
        refuse_options("is for --n-features: a schema says it", {
            "--n-features": n_features, "--classes": classes, "--label-bounds": label_bounds, "--scale": scale,
        })  # fmt: skip
        rest = protocol_arguments(confirmed_schema(schema, target), missing)
    else:
        refuse_options("is for --schema", {"--target": target, "--missing": missing})
        if n_features is None:
            raise ParameterError("--schema is missing: give it, or --n-features for rows of numbers.")
        rest = {"n_features": n_features}
        if scale is not None:
            rest["scale"] = scale
        if classes is not None:
            rest["classes"] = parse_classes("--classes", classes)
        if label_bounds is not None:
            rest |= {"task": "regression", "label_bounds": parse_bounds("--label-bounds", label_bounds)}
    made = Protocol.create(epsilon=epsilon, n_expected=n_expected, **rest)
    write_whole(out, made.to_json())
    if as_json:
        print_json({
            "protocol": str(out), "id": made.id.hex(), "epsilon": made.epsilon, "task": made.task, "d": made.d,
            "degree": made.degree,
        })  # fmt: skip
        return
    print_rows(f"Protocol {out}", [
        ("id", made.id.hex()),
        ("privacy of a report", f"epsilon = {made.epsilon:g}, pure local differential privacy"),
        ("predicts", made.task),
        ("coordinates", str(made.d)),
        ("moments", "first and second" if made.degree else "first only: too few reports for the second"),
    ])  # fmt: skip
