"""A site whose owner runs changed code: ``python -m support.changed_site CHANGES coordinator|party KIT``.

CHANGES is the name of a function of `support.hostile`. It is called before the library's code runs; nothing of the
product lets it in. The other sites are as always. None of them looks at its own certificates. A coordinator listens,
and does no run.
"""

import os
import sys
import time

from support import hostile


def main(changes: str, kind: str, kit: str) -> int:
    """Run the site until it is stopped."""
    from sottovoce.vertical.flare.kit import Kit
    from sottovoce.vertical.flare.processes import listening, run_site

    Kit._check_certificates = lambda kit: None  # type: ignore[method-assign]
    os.environ["TRIAL_KIT"] = kit
    opened = Kit.open(kit)
    assert opened.kind == kind
    does = getattr(hostile, changes)()
    if kind == "party":
        return run_site(opened, say=lambda line: print(line, flush=True))
    with listening(opened) as line:
        print(f"{opened.name}: started, process {os.getpid()}\nnot connected yet", flush=True)
        while True:
            if does is not None:
                does(opened, line)
            time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
