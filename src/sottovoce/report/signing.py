"""Signatures on receipts: Ed25519 over the bytes of the unsigned file, with a key in a file, checked offline."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from sottovoce._files import named_errors, write_new
from sottovoce._optional import Optional
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.report.comparison import Check

_ALGORITHM: Final = "Ed25519"
_PRIMITIVES: Final = "cryptography.hazmat.primitives"
_ed25519: Final[Any] = Optional(f"{_PRIMITIVES}.asymmetric.ed25519", purpose="signatures need", extra="sign")
_serialization: Final[Any] = Optional(f"{_PRIMITIVES}.serialization", purpose="signatures need", extra="sign")
_LARGEST_KEY: Final = 10_000


def make_key(path: str | Path) -> Path:
    """Make a key pair: the private key in ``path``, for its owner alone, the public one beside it.

    Parameters
    ----------
    path : str or Path
        A file that does not exist yet.

    Returns
    -------
    Path
        The file of the public key: that of the private one with ``.pub`` at the end.

    Raises
    ------
    ParameterError
        If one of the files exists or cannot be written, or ``sottovoce[sign]`` is not installed.
    """
    private = _ed25519.Ed25519PrivateKey.generate()
    path = Path(path)
    public = path.with_name(f"{path.name}.pub")
    hidden = private.private_bytes(
        _serialization.Encoding.PEM, _serialization.PrivateFormat.PKCS8, _serialization.NoEncryption()
    )
    shown = private.public_key().public_bytes(
        _serialization.Encoding.PEM, _serialization.PublicFormat.SubjectPublicKeyInfo
    )
    for place in (path, public):
        if place.exists() or place.is_symlink():
            raise ParameterError(f"{place}: the file exists. A key is never replaced: choose another name.")
    try:
        write_new(path, hidden)
        try:
            write_new(public, shown, 0o644)
        except BaseException:  # half a pair helps nobody, and would be in the way of the next
            path.unlink()
            raise
    except OSError as error:
        raise ParameterError(f"{path}: cannot write the key: {error.strerror}.") from None
    return public


def sign_receipt(guarantee: Guarantee, key: str | Path) -> Guarantee:
    """Return the receipt with a signature; one that it had is replaced.

    Parameters
    ----------
    guarantee : Guarantee
    key : str or Path
        File of a private key that `make_key` made, or another one in PEM, not encrypted.

    Raises
    ------
    ParameterError
        If the file holds no such key, or ``sottovoce[sign]`` is not installed.
    """
    private = _key(key, private=True)
    shown = private.public_key().public_bytes(_serialization.Encoding.Raw, _serialization.PublicFormat.Raw)
    value = private.sign(guarantee.signed_bytes())
    return replace(guarantee, signature={"algorithm": _ALGORITHM, "public_key": shown.hex(), "value": value.hex()})


def checked_signature(guarantee: Guarantee, public_key: str | Path) -> Check:
    """Check the signature of a receipt against a public key in a file.

    Raises ParameterError if the file holds no such key, or ``sottovoce[sign]`` is not installed.
    """
    known = _key(public_key, private=False)
    if guarantee.signature is None:
        return Check("signature", False, "the receipt is not signed")
    from cryptography.exceptions import InvalidSignature

    if guarantee.signature["algorithm"] != _ALGORITHM:
        return Check("signature", False, f"it is of the unknown kind {guarantee.signature['algorithm']!r}")
    shown = known.public_bytes(_serialization.Encoding.Raw, _serialization.PublicFormat.Raw).hex()
    if guarantee.signature["public_key"] != shown:
        return Check("signature", False, "it names another key than the one that was given")
    try:
        known.verify(bytes.fromhex(guarantee.signature["value"]), guarantee.signed_bytes())
    except (InvalidSignature, ValueError):
        return Check("signature", False, "it was not made by this key over this receipt")
    return Check("signature", True, f"made over this receipt by the holder of the key {shown}")


def _key(path: str | Path, *, private: bool) -> Any:
    """Return the key in a file; raises ParameterError if the file holds no such key."""
    with named_errors(path, "key", ParameterError), Path(path).open("rb") as file:
        text = file.read(_LARGEST_KEY)
    load = _serialization.load_pem_private_key if private else _serialization.load_pem_public_key
    try:
        key = load(text, **({"password": None} if private else {}))
    except (ValueError, TypeError) as error:  # TypeError: it is encrypted
        what = f"private key in PEM without a password: {error}" if private else "public key in PEM."
        raise ParameterError(f"{path}: this is not a {what}") from None
    if not isinstance(key, _ed25519.Ed25519PrivateKey if private else _ed25519.Ed25519PublicKey):
        make = " Make one: sottovoce receipt key." * private
        raise ParameterError(f"{path}: the key is not of the kind {_ALGORITHM}.{make}")
    return key
