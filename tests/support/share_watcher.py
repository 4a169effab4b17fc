"""A party's engine that prints what it holds of others' numbers: ``python -m support.share_watcher RANK ADDRESS...``.

Party 0 puts the same numbers twice; each line is "rank variable place", and the share's 64-bit words in hexadecimal.
"""

import os
import sys

import numpy as np

from sottovoce.vertical.engines.spu import SpuEngine

NUMBERS = np.arange(1000, dtype=np.int64)


def main():
    rank, *addresses = sys.argv[1:]
    engine = SpuEngine(int(rank), addresses, None, None, 30.0)
    engine.start()
    for name in ("first", "again"):
        engine.put(name, 0, NUMBERS.shape, NUMBERS if engine.rank == 0 else None)
        share = b"".join(engine._runtime.get_var(name).share_chunks)
        print(rank, name, share.hex(), flush=True)
    # nobody leaves before all have their shares
    engine.exchange(b"done")
    # without the library's clean-up, which waits for partners that are gone
    os._exit(0)


if __name__ == "__main__":
    main()
