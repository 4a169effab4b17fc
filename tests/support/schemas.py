"""Files of schemas as a user writes them: of columns that are numbers, categories, or nothing to fit."""

import json


def schema_text(target: str, head: str = "", **columns: tuple[float, float] | list[object] | None) -> str:
    """Return the text: a tuple is bounds, a list is categories, None is a column to ignore; ``head`` are more lines."""
    text = f'format = "sottovoce-schema"\nversion = 1\ntarget = "{target}"\n{head}'
    for name, values in columns.items():
        kind, key = ("numeric", "bounds") if isinstance(values, tuple) else ("categorical", "categories")
        entries = 'type = "ignore"' if values is None else f'type = "{kind}"\n{key} = {json.dumps(values)}'
        text += f"\n[columns.{name}]\n{entries}\n"
    return text
