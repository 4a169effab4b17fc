"""``python -m sottovoce``: the command line."""

from sottovoce.cli import main

main()
