"""A site whose owner runs changed code: ``python -m support.changed_site CHANGES coordinator|party KIT``.

CHANGES is the name of a function of `support.hostile`. It is called in all processes of the site, before FLARE's or the
library's code runs there; nothing of the product lets it in. The other sites are as always. None of them looks at its
own certificates.
"""

import os
import sys
import tempfile
from pathlib import Path

_START = """
import sys
if any(word.startswith("nvflare.private.fed.app.") for word in sys.orig_argv):
    from support import hostile
    hostile.{changes}()
"""


def main(changes: str, kind: str, kit: str) -> int:
    """Run the site until it is stopped."""
    from sottovoce.vertical.flare import processes
    from sottovoce.vertical.flare.kit import Kit

    Kit._check_certificates = lambda kit: None  # type: ignore[method-assign]
    opened = Kit.open(kit)
    assert opened.kind == kind
    environment = processes._environment
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sitecustomize.py").write_text(_START.format(changes=changes), encoding="utf-8")
        here = str(Path(__file__).parents[1])

        def changed(kit: Kit) -> dict[str, str]:
            usual = environment(kit)
            return {
                **usual, "PYTHONPATH": os.pathsep.join([folder, usual["PYTHONPATH"], here]),
                "TRIAL_KIT": str(kit.folder),
            }  # fmt: skip

        processes._environment = changed
        return processes.run_site(opened, say=lambda line: print(line, flush=True))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
