"""The listening socket: what it is decides whether small answers leave at once."""

import asyncio
import socket

import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.local.collector.server import bind


def test_accepted_connections_do_not_hold_small_answers_back():
    """asyncio turns the delay (Nagle's algorithm) off, but for sockets of a named protocol only."""
    with bind("127.0.0.1", 0) as listener:
        held_back = []

        async def answer(reader, writer):
            accepted = writer.get_extra_info("socket")
            held_back.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0)
            writer.close()
            await writer.wait_closed()

        async def talk():
            async with await asyncio.start_server(answer, sock=listener):
                reader, writer = await asyncio.open_connection(*listener.getsockname()[:2])
                await reader.read()
                writer.close()
                await writer.wait_closed()

        asyncio.run(talk())
    assert held_back == [False]


def test_a_port_that_is_taken_is_told():
    with bind("127.0.0.1", 0) as first:
        first.listen()
        port = first.getsockname()[1]
        with pytest.raises(ParameterError, match=rf"^host .*, port {port}: .*\. Choose another"):
            bind("127.0.0.1", port)
