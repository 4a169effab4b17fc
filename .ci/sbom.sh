#!/usr/bin/env bash
# What an installation of the wheel is made of, as CycloneDX 1.6 JSON in dist/: packages, versions, licences, and what needs
# what. The tool that writes it has an environment of its own. Argument: extras, separated by commas.
set -euo pipefail
cd "$(dirname "$0")/.."
extras=${1:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/tools"
"$folder/tools/bin/python" -m pip install --quiet --disable-pip-version-check build 'cyclonedx-bom>=7' 'cyclonedx-python-lib[json-validation]'
"$folder/tools/bin/python" -m build --quiet --wheel --outdir "$folder/dist" .
"${PYTHON:-python3}" -m venv --without-pip "$folder/installed"
wheel=$(ls "$folder"/dist/*.whl)
"$folder/tools/bin/python" -m pip --python "$folder/installed/bin/python" install --quiet --disable-pip-version-check \
  "sottovoce${extras:+[$extras]} @ file://$wheel"
mkdir -p dist
out="dist/sottovoce${extras:+-${extras//,/-}}.cdx.json"
"$folder/tools/bin/cyclonedx-py" environment --pyproject pyproject.toml --mc-type library --spec-version 1.6 --output-reproducible \
  --validate --output-format JSON --output-file "$out" "$folder/installed/bin/python"
"$folder/tools/bin/python" - "$out" <<'PYTHON'
import json, sys

content = json.load(open(sys.argv[1], encoding="utf-8"))
names = {component["name"] for component in content["components"]} | {content["metadata"]["component"]["name"]}
missing = {"sottovoce", "numpy", "scipy", "numba"} - names
print(f"{sys.argv[1]}: valid, {len(content['components'])} packages")
sys.exit(f"{sys.argv[1]} names no {', '.join(sorted(missing))}" if missing else 0)
PYTHON
