"""The collector: an HTTP service that takes one report from each device and keeps every one that it acknowledged.

It needs the packages of the extra ``sottovoce[collector]``; nothing else of sottovoce imports them.
"""

from importlib.util import find_spec

from sottovoce.exceptions import SottovoceError

_NEEDED = ("starlette", "uvicorn", "sqlalchemy", "psycopg", "prometheus_client")
_missing = [name for name in _NEEDED if find_spec(name) is None]
if _missing:
    raise SottovoceError(
        f'the collector needs {", ".join(_missing)}, which is not installed: pip install "sottovoce[collector]".'
    )
