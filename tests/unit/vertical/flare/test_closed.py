"""What a cell of FLARE's is let take: a law over messages of every peer, kind and form."""

import asyncio.sslproto
from itertools import product
from types import SimpleNamespace

import pytest

pytest.importorskip("nvflare", reason="needs the extra [vertical]")

from nvflare.fuel.f3.cellnet.defs import CellChannel, CellChannelTopic, Encoding, MessageHeaderKey, MessageType

from sottovoce.vertical.flare.hardening.closed import CHANNEL, tell_refused_connections, use_our_settings, why_refused

H = MessageHeaderKey
OURS = (CHANNEL, "ask")
CHANNELS = [OURS, (CELLNET := CellChannel.CELLNET, CellChannelTopic.Bye), (CELLNET, "bulk"), (CHANNEL, "here"),
            ("credential_manager", "key_exchange"), (CellChannel.CLIENT_COMMAND, "shell"), (None, None)]  # fmt: skip


def headers(peer="server", channel=OURS, kind=MessageType.REQ, **more):
    return {H.ORIGIN: peer, H.FROM_CELL: peer, H.DESTINATION: "north", H.MSG_TYPE: kind, H.CHANNEL: channel[0],
            H.TOPIC: channel[1], H.PAYLOAD_ENCODING: Encoding.BYTES, **more}  # fmt: skip


def why(given, peer="server"):
    return why_refused(given, peer, "north", {"server"}, "ask")


def test_bytes_of_the_peer_on_our_channel_and_answers_alone_are_taken():
    kinds = [MessageType.REQ, MessageType.REPLY, MessageType.RETURN, None]
    encodings = [Encoding.BYTES, Encoding.NONE, None, Encoding.FOBS, "another"]
    peers = ["server", "bank", "server.job", None]
    for peer, channel, kind, encoding in product(peers, CHANNELS, kinds, encodings):
        said = why(headers(peer, channel, kind, **{H.PAYLOAD_ENCODING: encoding}), peer)
        taken = kind == MessageType.REPLY or (kind == MessageType.REQ and channel in CHANNELS[:2])
        good = peer == "server" and encoding not in (Encoding.FOBS, "another") and taken
        assert (said == "") == good, (peer, channel, kind, encoding, said)


@pytest.mark.parametrize("more", [
    {H.ORIGIN: "bank"}, {H.FROM_CELL: "bank"}, {H.ORIGIN: None}, {H.DESTINATION: "bank"}, {H.DESTINATION: None},
    {H.CONN_URL: "tcp://elsewhere:1"}, {H.ENCRYPTED: True},
])  # fmt: skip
@pytest.mark.parametrize("kind", [MessageType.REQ, MessageType.REPLY])
def test_nothing_is_taken_for_others_or_opens_another_line(more, kind):
    assert why(headers(kind=kind)) == ""
    assert why(headers(kind=kind, **more))


def test_flare_reads_no_file_of_settings(tmp_path, monkeypatch):
    """It would find one below the folder that it is started in."""
    from nvflare.fuel.f3.comm_config import CommConfigurator
    from nvflare.fuel.f3.sfm import conn_manager
    from nvflare.fuel.utils.config_service import ConfigService

    (tmp_path / "comm_config.json").write_text('{"comm_driver_path": "/elsewhere"}')
    monkeypatch.chdir(tmp_path)
    for name in ("_configuration", "_config_loaded"):
        monkeypatch.setattr(CommConfigurator, name, getattr(CommConfigurator, name))
    monkeypatch.setattr(conn_manager, "MAX_WAIT", conn_manager.MAX_WAIT)
    CommConfigurator.reset()
    ConfigService.reset()
    assert CommConfigurator().get_comm_driver_path(None) == "/elsewhere", "FLARE looks no more: this can go"
    ConfigService.reset()
    use_our_settings()
    assert CommConfigurator().get_comm_driver_path(None) is None
    assert not CommConfigurator().allow_adhoc_connections(True)


def test_a_handshake_that_fails_is_told_once_however_many_lines_there_were(monkeypatch, caplog):
    """A party makes a new line whenever one is dead, for as long as its process lives."""
    protocol = asyncio.sslproto.SSLProtocol
    monkeypatch.setattr(protocol, "_fatal_error", lambda *given: None)
    for _ in range(2000):  # more than calls may be within calls
        tell_refused_connections()
    protocol._fatal_error(SimpleNamespace(_transport=None), OSError("why"), "SSL handshake failed")
    assert [record.getMessage() for record in caplog.records] == ["refused: the connection with None: why"]
