"""A coordinator that asks for what it must not have: refused at the site, written down there, and survived.

The attacks are real: the coordinator's process runs changed code (`support.hostile`), which sends what it likes through
FLARE's cell. The parties run what is installed. Each header is tried in `unit/vertical/flare/test_closed.py`, each
message on gates and parties in one process.
"""

import json

import pytest

pytest.importorskip("nvflare", reason="parties in different organisations need the extra [vertical]")

from support.federation import running_federation, until
from support.small_federation import PRIVATE, make_ledgers, sites


def test_nothing_but_signed_requests_is_answered_and_sites_go_on():
    with running_federation(sites(), prepare=make_ledgers) as federation:
        federation.start("lab", program=["-m", "support.changed_site", "coordinator"])
        path = federation.coordinator / "attacks.json"
        came = json.loads(until(lambda: path.exists() and path.read_text(), what="the end of the attacks"))
        federation.stop("lab")
        assert len(came) == 16
        for attack, said in came.items():
            if attack.endswith(("no envelope", "no bytes")):
                assert "it answers the coordinator alone" in said, (attack, said)
            else:
                assert said == "timeout: b''", (attack, said)
        for name in federation.names[1:]:
            for words in ("holds an object", "answers requests of runs only", "another line than this one"):
                assert words in federation.log(name), words
            assert {entry["outcome"] for entry in federation.register(name)} == {"turned away"}
            assert not federation.charges(name)
        federation.train(*PRIVATE)
        for name in federation.names[1:]:
            assert federation.register(name)[-1]["outcome"] == "answered"
