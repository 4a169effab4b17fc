"""Start-up kits that are made once: of two federations of the same sites, at two ports."""

import os
import shutil

import pytest

from sottovoce.vertical.flare.kit import Kit, provision
from support.ports import free_ports
from support.site import KITS


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The kits of both, in the folders "trial" and "other"."""
    pytest.importorskip("nvflare", reason="start-up kits need the extra [vertical]")
    folder, before = tmp_path_factory.mktemp("kits"), os.umask(0o022)  # what users have
    try:
        for name in ("trial", "other"):
            file = folder / f"{name}.toml"
            file.write_text(KITS.format(name=name, port=free_ports(1)[0]), encoding="utf-8")
            provision(file, folder / name)
    finally:
        os.umask(before)
    return folder


@pytest.fixture
def kits(folder):
    return folder / "trial"


@pytest.fixture
def copied(kits, tmp_path):
    """Return a function that copies a kit and opens it."""
    return lambda name: Kit.open(shutil.copytree(kits / name, tmp_path / name))
