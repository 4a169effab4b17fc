"""What ``[secure]`` of ``site.toml`` says: whom a site computes with where nobody sees anything, and where it is."""

import re
from collections.abc import Mapping
from typing import Any, Final

from sottovoce._validation import nearest, number
from sottovoce.exceptions import ParameterError
from sottovoce.vertical.engines.site import ENGINES, ComputeSite

__all__ = ["computing_from"]

_HOST: Final = re.compile(
    r"(?=.{1,253}$)([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_LONGEST: Final = 86_400.0
_LAST_PORT: Final = 65_535


def computing_from(kit: Any, entries: Mapping[str, Any]) -> ComputeSite:
    """Return what a section says.

    Parameters
    ----------
    kit : Kit
        Of the site.
    entries : mapping

    Raises
    ------
    ParameterError
        Naming the entry and the remedy.
    """
    others = tuple(name for name in kit.federation.names if name != kit.name)
    partners = _partners(entries.get("partners"), others)
    if not all((kit.identity / file).is_file() for file in ("certificate.pem", "key.pem", "authority.pem")):
        raise ParameterError(
            f"[secure]: {kit.identity} with certificate.pem, key.pem and authority.pem is missing: the kit is of an "
            "older version. Make new kits: sottovoce vertical provision."
        )
    timeout = entries.get("timeout", 600)
    return ComputeSite(
        partners=partners,
        host=_host(entries.get("host")),
        ports=_ports(entries.get("ports")),
        engines=_engines(entries.get("engines")),
        identity=kit.identity,
        fingerprints=_fingerprints(entries.get("fingerprints"), partners),
        timeout=number("[secure] timeout", timeout, above=0.0, at_most=_LONGEST),
    )


def _partners(listed: object, others: tuple[str, ...]) -> tuple[str, ...]:
    there = ", ".join(f'"{name}"' for name in others)
    if not isinstance(listed, list) or not listed or not all(isinstance(name, str) for name in listed):
        raise ParameterError(
            f"[secure] partners must list the sites that this one computes with, out of {there}; "
            f"{'it is missing' if listed is None else f'got {listed!r}'}."
        )
    for name in listed:
        if name not in others:
            raise ParameterError(
                f"[secure] partners has {name!r}, which is no other site of the federation.{nearest(name, others)} "
                f"There are {there}."
            )
    return tuple(dict.fromkeys(listed))


def _host(value: object) -> str:
    if isinstance(value, str) and _HOST.fullmatch(value):
        return value
    got = "it is missing" if value is None else f"got {value!r}"
    raise ParameterError(
        "[secure] host must be the host name or address at which the partners reach this site, such as "
        f'"north.example", without https:// and port; {got}.'
    )


def _ports(value: object) -> tuple[int, int]:
    if isinstance(value, list) and len(value) == 2 and all(type(port) is int for port in value):
        first, last = value
        if 1 <= first <= last <= _LAST_PORT:
            return first, last
    got = "it is missing" if value is None else f"got {value!r}"
    raise ParameterError(
        "[secure] ports must be the first and the last of the ports that are open to the partners, such as "
        f"[9100, 9110], within 1 and {_LAST_PORT}; {got}."
    )


def _engines(listed: object) -> tuple[str, ...]:
    if listed is None:
        return ENGINES
    known = ", ".join(f'"{name}"' for name in ENGINES)
    if not isinstance(listed, list) or not listed or not all(isinstance(name, str) for name in listed):
        raise ParameterError(f"[secure] engines must be a list of names out of {known}; got {listed!r}.")
    for name in listed:
        if name not in ENGINES:
            raise ParameterError(f"[secure] engines has {name!r}, which is none of {known}.{nearest(name, ENGINES)}")
    return tuple(dict.fromkeys(listed))


def _fingerprints(given: object, partners: tuple[str, ...]) -> dict[str, str] | None:
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise ParameterError(f"[secure] fingerprints must be a section, [secure.fingerprints]; got {given!r}.")
    found = {}
    for name, text in given.items():
        if name not in partners:
            raise ParameterError(f"[secure.fingerprints] has {name!r}, which is none of partners. Add it there.")
        # as openssl prints it, "sha256 Fingerprint=AB:CD:...", or the digits alone
        digest = text.rpartition("=")[2].strip().replace(":", "").lower() if isinstance(text, str) else ""
        if not _DIGEST.fullmatch(digest):
            raise ParameterError(
                f"[secure.fingerprints] {name} must be the SHA-256 of the partner's identity/certificate.pem, 64 "
                f"hexadecimal digits with or without colons; got {text!r}."
            )
        found[name] = digest
    return found
