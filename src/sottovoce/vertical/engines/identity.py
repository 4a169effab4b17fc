"""Who a partner is: certificates of one authority, and what was signed with their keys."""

from __future__ import annotations

import datetime
import hmac
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sottovoce.vertical.engines.engine import EngineError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

CARD: Final = "card of a joint computation"
_BEFORE, _AFTER = datetime.timedelta(hours=1), datetime.timedelta(days=2)


class Identity:
    """A party's certificate, its key, and the authority that all parties of the project trust.

    ``folder``: with ``certificate.pem``, ``key.pem`` and ``authority.pem``.
    """

    def __init__(self, folder: Path) -> None:
        _library()
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        self.certificate = _read(folder, "certificate.pem").decode("ascii", "replace")
        self._authority = _read(folder, "authority.pem")
        _certificate("authority.pem of this party's identity", self._authority)
        own = _certificate("certificate.pem of this party's identity", self.certificate)
        try:
            key = load_pem_private_key(_read(folder, "key.pem"), password=None)
        except (ValueError, TypeError):  # TypeError: it is encrypted
            raise EngineError("key.pem of this party's identity is no private key in PEM without password.") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise EngineError("key.pem of this party's identity is no key of an elliptic curve.")
        if key.public_key() != own.public_key():
            raise EngineError("key.pem of this party's identity does not belong to its certificate.pem.")
        self._key = key

    def sign(self, content: bytes, what: str = CARD) -> str:
        """Return the signature of ``content``, in hexadecimal digits; as ``what`` it is signed, and as nothing else."""
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.hashes import SHA256

        return self._key.sign(_purpose(what) + content, ec.ECDSA(SHA256())).hex()

    def check(
        self, name: str, certificate: str, fingerprint: str | None, content: bytes, signature: str, what: str = CARD
    ) -> None:
        """Refuse content that the party of that name has not signed as ``what``.

        ``name``: the party; its certificate carries the name.
        ``certificate``: what it shows, in PEM.
        ``fingerprint``: SHA-256 of the certificate, where known.
        ``signature``: in hexadecimal digits.
        ``what``: its first word names it in messages.

        Raises
        ------
        EngineError
        """
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.hashes import SHA256

        whose = repr(name)
        shown, authority = _issued(whose, certificate, self._authority)
        _in_time(f"the certificate of {whose}", shown)
        _in_time("the authority's certificate", authority)
        if names_of(shown) != [name]:
            raise EngineError(f"the certificate of {whose} is another one's: its common name must be the party's.")
        if fingerprint is not None:
            found = shown.fingerprint(SHA256()).hex()
            if not hmac.compare_digest(found, fingerprint.replace(":", "").replace(" ", "").lower()):
                raise EngineError(
                    f"the certificate of {whose} has not the fingerprint that this party was told; ask its owner, by "
                    "another way than this one, for the right one."
                )
        key = shown.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise EngineError(f"the key of {whose} must be of an elliptic curve.")
        try:
            key.verify(bytes.fromhex(signature), _purpose(what) + content, ec.ECDSA(SHA256()))
        except (InvalidSignature, ValueError):
            raise EngineError(
                f"the {what.split()[0]} of {whose} was not signed with its key: it was changed on its way, or is "
                "another one's."
            ) from None


@lru_cache(64)  # a run shows the same certificates with each of its messages
def _issued(whose: str, certificate: str, authority: bytes) -> tuple[Certificate, Certificate]:
    """Return a certificate and that of the authority, which issued it."""
    shown = _certificate(f"the certificate of {whose}", certificate)
    trusted = _certificate("the authority's certificate", authority)
    try:
        shown.verify_directly_issued_by(trusted)
    except Exception:
        raise EngineError(
            f"the certificate of {whose} was not issued by the authority that this party trusts: all parties need "
            "certificates of one authority."
        ) from None
    return shown, trusted


def names_of(certificate: Certificate) -> list[str]:
    """Return whose a certificate is: the common names in it, of which there should be one."""
    from cryptography.x509.oid import NameOID

    return [str(entry.value) for entry in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]


def session_certificate(name: str) -> tuple[bytes, bytes]:
    """Return a new key and its self-signed certificate, in PEM, for the TLS links of one session."""
    _library()
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    # subjects differ, so that a library which looks certificates up by subject finds the right one
    own = f"{name[:40]} {x509.random_serial_number():040x}"[:64]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, own)])
    uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + _AFTER)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private, made.public_bytes(serialization.Encoding.PEM)


def check_session_certificate(whose: str, certificate: str) -> None:
    """Refuse what a partner's TLS links could not be known by."""
    from cryptography.hazmat.primitives.asymmetric import ec

    words = f"the session certificate of {whose}"
    shown, is_known = _certificate(words, certificate), False
    try:
        is_known = isinstance(shown.public_key(), ec.EllipticCurvePublicKey)
        shown.verify_directly_issued_by(shown)
    except Exception:  # the partner itself has made it, of whatever it likes
        raise EngineError(f"{words} is not {'self-signed' if is_known else 'of the kind that sessions use'}.") from None
    if not is_known:
        raise EngineError(f"{words} is not of the kind that sessions use.")
    _in_time(words, shown)


def _purpose(what: str) -> bytes:
    return f"sottovoce: {what}\n".encode()  # a key that signs other things signs nothing of ours by that


def _library() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise EngineError("certificates need another library: pip install 'sottovoce[secure]'.") from None


def _read(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError:
        # the folder itself is nobody else's business
        raise EngineError(f"this party's identity lacks {name}, or it cannot be read.") from None


def _certificate(words: str, text: bytes | str) -> Certificate:
    from cryptography.x509 import load_pem_x509_certificate

    try:
        return load_pem_x509_certificate(text.encode() if isinstance(text, str) else text)
    except Exception:  # one that was damaged is wrong in more ways than the library has a common error for
        raise EngineError(f"{words} is not a certificate in PEM.") from None


def _in_time(words: str, certificate: Certificate) -> None:
    now = datetime.datetime.now(datetime.UTC)
    if now > certificate.not_valid_after_utc:
        raise EngineError(f"{words} ended on {certificate.not_valid_after_utc:%Y-%m-%d}: it must be renewed.")
    if now < certificate.not_valid_before_utc:
        raise EngineError(
            f"{words} begins on {certificate.not_valid_before_utc:%Y-%m-%d}: set the clocks of both sites."
        )
