"""Self-signed certificates of one session, as the cards of the parties carry them."""

from sottovoce.vertical.engines.identity import session_certificate


def session_certificates(folder, n_parties):
    """Return a folder of TLS files for each party: its own certificate and key, and the certificates of all others."""
    made, folders = [session_certificate(f"party {rank}") for rank in range(n_parties)], []
    for rank, (key, certificate) in enumerate(made):
        folders.append(folder / str(rank))
        folders[-1].mkdir(parents=True)
        partners = b"".join(each for other, (_, each) in enumerate(made) if other != rank)
        for name, content in (("key", key), ("certificate", certificate), ("partners", partners)):
            (folders[-1] / f"{name}.pem").write_bytes(content)
    return folders
