"""An authority of a federation, and identities of its parties, as folders."""

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


def _named(*names):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names])


def _pem(key):
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


class Authority:
    """Makes identities: ``certificate.pem``, ``key.pem`` and ``authority.pem`` in a folder."""

    def __init__(self, name="project", *, ends=_DAY):
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._make(_named(name), _named(name), self._key.public_key(), -_DAY, ends, ca=True)

    def _make(self, subject, issuer, key, begins, ends, *, ca=False):
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + begins)
            .not_valid_after(now + ends)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .sign(self._key, SHA256())
        )

    def identity(self, folder, *common_names, begins=-_DAY, ends=_DAY, kind="elliptic"):
        """Make one; return its folder."""
        key = ec.generate_private_key(ec.SECP256R1()) if kind == "elliptic" else rsa.generate_private_key(65537, 2048)
        made = self._make(_named(*common_names), self._certificate.subject, key.public_key(), begins, ends)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "key.pem").write_bytes(_pem(key))
        (folder / "certificate.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
        (folder / "authority.pem").write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))
        return folder
