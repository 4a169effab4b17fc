"""Why a party is not connected: FLARE tries again for ever and says nothing; its owner is told here."""

from __future__ import annotations

import socket
import ssl

from sottovoce.vertical.flare.kit import Kit

__all__ = ["why_not_connected"]

_SECONDS = 5.0
_REFUSAL_SECONDS = 1.0


def why_not_connected(kit: Kit) -> str:
    """Try a connection with the coordinator, and return what is wrong with it; empty if nothing is.

    Parameters
    ----------
    kit : Kit
        Of a party.
    """
    facts = kit.federation
    place = f"{facts.host}, port {facts.port}"
    try:
        with socket.create_connection((facts.host, facts.port), timeout=_SECONDS) as plain:
            return _why_refused(kit, plain, place)
    except socket.gaierror as error:
        return f"the host {facts.host!r} is not known here ({error.strerror})"
    except OSError as error:
        return f"nobody answers at {place} ({error.strerror or 'time is over'})"


def _why_refused(kit: Kit, plain: socket.socket, place: str) -> str:
    facts, startup = kit.federation, kit.folder / "startup"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # the name is compared below: certificates of FLARE have it in their subject
    context.load_verify_locations(startup / "rootCA.pem")
    context.load_cert_chain(startup / "client.crt", startup / "client.key")
    try:
        with context.wrap_socket(plain) as line:
            subject = dict(pair for part in line.getpeercert()["subject"] for pair in part)  # type: ignore[index,misc]
            shown = subject.get("commonName")
            if shown != facts.host:
                return f"refused: what answers at {place} shows the certificate of {shown!r}, not the coordinator's"
            line.settimeout(_REFUSAL_SECONDS)
            try:
                ended = line.recv(1) == b""  # an accepted connection is silent until something is asked
            except TimeoutError:
                return ""
            except OSError:
                ended = True
            return f"{facts.coordinator} at {place} refuses this site's certificate" if ended else ""
    except ssl.SSLCertVerificationError as error:
        return (
            f"refused: what answers at {place} shows a certificate that the authority of federation {facts.name} has "
            f"not signed, or that has ended ({error.verify_message})"
        )
    except ssl.SSLError:
        return f"refused: what answers at {place} does not speak TLS"
    except OSError as error:
        return f"the connection with {place} was closed ({error.strerror or 'time is over'})"
