"""One table of audits: each mechanism, and each training that it is part of, with the adversary who sees the most."""

from support.audits import choices, fits, parties, releases, sampled_fits

AUDITS = tuple(
    audit
    for room in (releases, choices, fits, sampled_fits, parties)
    for audit in room.AUDITS
)  # fmt: skip
