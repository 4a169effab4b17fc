"""Text of strangers as people see it: nothing in it can move a cursor, turn letters round or pass for our own words."""

import json
import re
from typing import Final

_LONGEST: Final = 60
# control characters but for tabs and ends of lines; soft hyphens, marks and overrides of direction, separators of lines
# and paragraphs, joiners, tags, halves of letters: whatever a terminal obeys, or nobody sees
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
QUOTED: Final = r'"(?:[^"\\]|\\(?:["\\bfnrt]|u[0-9a-f]{4}))*"'  # what `quoted` makes, as a pattern


def shown(text: str) -> str:
    """Return text with every such character as JSON writes it: what was JSON still is the same JSON."""
    return _HIDDEN.sub(_escaped, text)


def in_one_line(text: str) -> str:
    return shown(text.replace("\n", "\\n"))


def quoted(name: object) -> str:
    """Return a name that somebody chose, for a sentence of ours: in quotation marks, in one line, and not long."""
    text = str(name)
    return shown(json.dumps(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…", ensure_ascii=False))


def is_class_name(name: object) -> bool:
    """Tell whether a text can be the name of a class, and not much else."""
    return isinstance(name, str) and name.isidentifier() and len(name) <= _LONGEST


def _escaped(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1].replace("\x7f", "\\u007f")
