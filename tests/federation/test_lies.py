"""Parties that answer with anything: the coordinator's error names the party, and nothing of it is believed."""

import pytest

pytest.importorskip("nvflare", reason="parties in different organisations need the extra [vertical]")

from support.federation import running_federation
from support.small_federation import RUN, open_sites

pytestmark = pytest.mark.federation


@pytest.fixture(scope="module")
def federation():
    """`bank` runs changed code and lies from the fifth answer on, as its file says."""
    with running_federation(open_sites(), start=False) as federation:
        federation.start("lab", "north")
        federation.start("bank", program=["-m", "support.changed_site", "lies"])
        yield federation


@pytest.mark.parametrize("lie", ["garbage", "nan", "short", "huge", "object", "raises", "hangs"])
def test_a_party_that_lies_is_named(federation, lie):
    (federation.kit("bank") / "lie.txt").write_text(lie)
    done = federation.train(*RUN, "--timeout", 8, fails=True)
    assert "'bank'" in done.stderr
    assert "'north'" not in done.stderr
    assert "secret" not in done.stderr
    assert not federation.parts("north")
    federation.wait_for_silence()
