"""Private set intersection as bytes: exact, and what crosses the boundary is what the page says."""

import json
import traceback

import numpy as np
import pytest

from sottovoce.exceptions import DataError
from sottovoce.vertical.protocols.alignment.psi import PsiClient, PsiServer, read_announcement

library = pytest.importorskip(
    "private_set_intersection.python", reason="the package openmined-psi (extra [vertical]) is not installed"
)

CLIENT = ["geheim-1", "b", "geheim-3", "x\0y", "\u00e9", "z" * 3000]
SERVER = ["nein", "geheim-3", "\u00e9", "geheim-1", "e\u0301"]


def exchange(client, server):
    setup, request = server.setup(), client.request()
    return setup, request, server.respond(request)


def test_messages_hold_no_identifier_and_say_nothing_by_their_order():
    rng = np.random.default_rng(0)
    mine = [f"geheim-{k:04d}" for k in range(200)]
    theirs = [mine[k] for k in rng.permutation(200)]
    client, server = PsiClient(mine), PsiServer(theirs)
    setup, request, response = exchange(client, server)
    for message in (setup, request, response):
        assert b"geheim" not in message
    assert "geheim" not in repr(client) + repr(server)
    points = list(library.ServerSetup.FromString(setup).raw.encrypted_elements)
    assert points == sorted(points)  # the sorted order of random points
    # with the key of the client, the request can be put beside the identifiers: its order must be another in each run
    again = PsiClient(mine)
    again._cipher, again._asked = client._cipher, client._asked
    first, second = (
        list(library.Request.FromString(message).encrypted_elements) for message in (request, again.request())
    )
    assert first != second  # equal with probability 1/200!
    assert sorted(first) == sorted(second)


def test_keys_are_new_in_each_object():
    assert PsiServer(SERVER).setup() != PsiServer(SERVER).setup()
    points = [
        set(library.Request.FromString(PsiClient(CLIENT).request()).encrypted_elements) for _ in range(2)
    ]  # fmt: skip
    assert not points[0] & points[1]


def test_a_setup_with_false_positives_is_refused():
    client, server = PsiClient(CLIENT), PsiServer(SERVER)
    _, _, response = exchange(client, server)
    for structure in (library.DataStructure.GCS, library.DataStructure.BLOOM_FILTER):
        rounded = server._cipher.CreateSetupMessage(0.5, 1, SERVER, structure).SerializeToString()
        with pytest.raises(DataError, match="would admit false positives"):
            client.intersect(rounded, response)
    with pytest.raises(DataError, match="would admit false positives"):
        client.intersect(b"", response)


@pytest.mark.parametrize("damaged", [b"\xff\xff\xff", "text", None])
def test_damaged_messages(damaged):
    client, server = PsiClient(CLIENT), PsiServer(SERVER)
    setup, _, response = exchange(client, server)
    with pytest.raises(DataError, match="the request message cannot be read"):
        server.respond(damaged)
    with pytest.raises(DataError, match="the setup message cannot be read"):
        client.intersect(damaged, response)
    with pytest.raises(DataError, match="the response message cannot be read"):
        client.intersect(setup, damaged)
    with pytest.raises(DataError, match="the announcement is not a list of texts"):
        read_announcement(damaged)


def test_messages_that_do_not_fit():
    client, server = PsiClient(CLIENT), PsiServer(SERVER)
    setup, _, _ = exchange(client, server)
    with pytest.raises(DataError, match="the response is for 129 points, the request had 135"):
        client.intersect(setup, server.respond(PsiClient(["a"]).request()))
    off_the_curve = library.Response()
    off_the_curve.encrypted_elements.extend([b"\x02" + bytes([k]) + b"\xff" * 31 for k in range(135)])
    with pytest.raises(DataError, match="not a point of the curve"):
        client.intersect(setup, off_the_curve.SerializeToString())
    request = library.Request(reveal_intersection=True)
    request.encrypted_elements.append(b"\x02" + b"\xff" * 32)
    with pytest.raises(DataError, match="the request is damaged"):
        server.respond(request.SerializeToString())
    with pytest.raises(DataError, match="the request is damaged, or asks for a size only"):
        server.respond(library.Request(reveal_intersection=False).SerializeToString())


@pytest.mark.parametrize(
    ("announcement", "fault"),
    [
        (json.dumps(["geheim-3", "geheim-1"]), "is not sorted"),
        (json.dumps(["geheim-1", "geheim-1"]), "repeats an identifier"),
        (json.dumps(["geheim-1", 3]), "is not a list of texts"),
        (json.dumps({"geheim-1": 1}), "is not a list of texts"),
        (json.dumps(["geheim-1", "\ud800"]), "is not a list of texts"),
        ("[" * 100_000, "is not a list of texts"),
    ],
)
def test_wrong_announcements_never_misalign(announcement, fault):
    with pytest.raises(DataError, match=fault) as caught:
        read_announcement(announcement.encode())
    assert "geheim" not in "".join(traceback.format_exception_only(caught.value))
