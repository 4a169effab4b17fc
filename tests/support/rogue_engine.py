"""A party's engine that behaves until the session has been checked, and then does something else.

``python -m support.rogue_engine RANK WHAT ADDRESS...`` with one of

- "tells": it runs another program and says so, as a party with another plan would;
- "lies": it runs another program and sends the digest of the one that was agreed.
"""

import sys

from sottovoce.vertical.engines.guarded import Guarded, self_check
from sottovoce.vertical.engines.programs import Add, Mask
from sottovoce.vertical.engines.spu import SpuEngine


def main():
    rank, what, *addresses = sys.argv[1:]
    engine = SpuEngine(int(rank), addresses, None, None, 30.0)
    honest = Guarded(engine)
    honest.start()
    self_check(honest, len(addresses))
    shape = (50, 4)
    for owner in (0, 1):
        honest.put(f"x{owner}", owner, shape, None)
    if what == "tells":
        honest.run(Add(), ["x0"], ["y"])
    else:
        honest._variables.run(Mask(), ["x0", "x1"], ["y"])
        honest._compare()
        # instead of adding, it opens what it must not see
        engine.reveal("x0")


if __name__ == "__main__":
    main()
