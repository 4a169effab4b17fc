"""What a registry gets: the README with absolute links, the proofs in the wheel, and no release that leads nowhere."""

import re
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from sottovoce._addresses import documentation
from sottovoce.cli.proof import _pages, proof_names, proof_page

for needed in ("build", "twine", "hatch_fancy_pypi_readme"):
    pytest.importorskip(needed)
ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LINK = re.compile(r"(!?)\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)]+)\)")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder, ROOT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = folder.glob("*.whl")
    return made


def test_the_readme_of_the_wheel_leads_where_the_one_here_does(wheel):
    with zipfile.ZipFile(wheel) as opened:
        (name,) = [name for name in opened.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = message_from_bytes(opened.read(name))
    assert metadata["Description-Content-Type"] == "text/markdown"
    here = LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    there = LINK.findall(metadata.get_payload(decode=True).decode("utf-8"))
    assert len(here) == len(there) > 20
    for (picture, path), (_, address) in zip(here, there, strict=True):
        assert address == documentation(path) + ("?raw=true" if picture else "")
        assert address.startswith("https://")


def test_the_wheel_has_the_proofs(wheel):
    with zipfile.ZipFile(wheel) as opened:
        for name in proof_names():
            page = Path(str(_pages()[name]))
            packed = f"sottovoce/proofs/{page.relative_to(ROOT / 'docs')}"
            assert opened.read(packed).decode("utf-8") == proof_page(name), name
        assert len([name for name in opened.namelist() if "/proofs/" in name and name.endswith(".md")]) == len(
            proof_names()
        )
        assert (
            opened.read("sottovoce/proofs/privacy/mechanisms.csv")
            == (ROOT / "docs/privacy/mechanisms.csv").read_bytes()
        )


@pytest.mark.parametrize(
    ("host", "asked", "refused"),
    [
        ("sottovoce.example", [], True),
        ("sottovoce.example", ["anyway"], False),
        ("sottovoce.example", ["yes"], True),
        ("localhost:8000", [], True),
        ("sottovoce.readthedocs.io", [], False),
    ],
)
def test_a_release_needs_a_real_address(tmp_path, host, asked, refused):
    path = tmp_path / "pyproject.toml"
    path.write_text(f'[project.urls]\nHomepage = "https://{host}/"\n')
    done = subprocess.run(
        [sys.executable, ROOT / ".ci/address.py", path, *asked], capture_output=True, text=True, check=False
    )
    assert (done.returncode != 0) == refused
    assert ("These addresses lead nowhere" in done.stderr) == refused
