"""Self-signed certificates of one session, as the cards of the parties carry them."""

import datetime

from sottovoce.vertical.engines.site import TlsFiles


def session_certificates(folder, n_parties):
    """Return the TLS files of each party: its own certificate and key, and the certificates of all others."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    pem = serialization.Encoding.PEM
    certificates = []
    now = datetime.datetime.now(datetime.UTC)
    for rank in range(n_parties):
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"party {rank}")])
        made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        made = made.not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(
            now + datetime.timedelta(days=2)
        )
        made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        certificates.append(made.sign(key, hashes.SHA256()).public_bytes(pem))
        plain = serialization.NoEncryption()
        (folder / f"key{rank}.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
        (folder / f"certificate{rank}.pem").write_bytes(certificates[-1])
    files = []
    for rank in range(n_parties):
        partners = folder / f"partners{rank}.pem"
        partners.write_bytes(b"".join(each for place, each in enumerate(certificates) if place != rank))
        files.append(TlsFiles(folder / f"certificate{rank}.pem", folder / f"key{rank}.pem", partners))
    return files
