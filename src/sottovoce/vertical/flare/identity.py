"""Who a site is to other sites in joint computations: a certificate with its name, of the federation's authority."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Final

__all__ = ["write_identity"]

_DAYS: Final = 360  # as FLARE's certificates of sites


def write_identity(folder: Path, name: str, authority: Path) -> None:
    """Make the folder with ``certificate.pem``, ``key.pem`` and ``authority.pem`` of a site.

    FLARE's certificates open TLS connections, and its server's has the name of a host. This one has the name of the
    site, and signs what the site says of itself (`sottovoce.vertical.engines.cards`): it opens no connection.

    Parameters
    ----------
    folder : Path
        To be made.
    name : str
        Of the site.
    authority : Path
        Folder with the authority's certificate and key.
    """
    root = (authority / "rootCA.pem").read_bytes()
    certificate, key = _signed(name, root, (authority / "rootCA.key").read_bytes())
    folder.mkdir(mode=0o700)
    for file, content in (("authority.pem", root), ("certificate.pem", certificate), ("key.pem", key)):
        (folder / file).write_bytes(content)


def _signed(name: str, root: bytes, root_key: bytes) -> tuple[bytes, bytes]:
    """Return a certificate for signing documents, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID, ObjectIdentifier

    issuer = x509.load_pem_x509_certificate(root)
    signer = serialization.load_pem_private_key(root_key, None)
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(min(now + datetime.timedelta(days=_DAYS), issuer.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ObjectIdentifier("1.3.6.1.5.5.7.3.36")]), critical=False)  # documents
        .sign(signer, hashes.SHA256())  # type: ignore[arg-type]
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made.public_bytes(serialization.Encoding.PEM), private
