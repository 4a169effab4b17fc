"""Print the lowest version that pyproject.toml allows of each package that it names, as constraints for pip."""

import re
import sys
import tomllib
from pathlib import Path

content = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
project = content["project"]
# data frames: no dependency, and tried all the same
frames = [line for line in content["dependency-groups"]["dev"] if isinstance(line, str) and line.startswith("pandas>")]
extras = [*project["optional-dependencies"].values(), frames]
for requirement in sorted({*project["dependencies"], *(line for lines in extras for line in lines)}):
    found = re.fullmatch(r"([\w-]+)(\[\w+\])?[>=]=([\w.]+)(,<[\w.]+)?(;.*)?", requirement.replace(" ;", ";"))
    if found is None:
        sys.exit(f"pyproject.toml: {requirement!r} states no lower bound as NAME>=VERSION or NAME==VERSION")
    print(f"{found[1]}=={found[3]}{found[5] or ''}")
