"""One table of audits: each mechanism, and each training that it is part of, with the adversary who sees the most."""

from support.audits import choices, comparison, evaluation, fits, parties, releases

AUDITS = tuple(
    audit
    for room in (releases, choices, fits, comparison, parties, evaluation)
    for audit in room.AUDITS
)  # fmt: skip
