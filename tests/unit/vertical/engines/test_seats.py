"""Cards and seats: partners compute with each other only if each has signed the same session, plan and programs."""

import datetime
import json
import socket
import stat
import sys
import types
from dataclasses import replace
from functools import partial
from ssl import DER_cert_to_PEM_cert, PEM_cert_to_DER_cert

import pytest

pytest.importorskip("cryptography", reason="certificates need the extra [secure]")

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509 import load_pem_x509_certificate

from sottovoce._version import __version__
from sottovoce.vertical import engines as installed
from sottovoce.vertical.engines import ComputeSite, seat
from sottovoce.vertical.engines.engine import EngineError
from sottovoce.vertical.engines.identity import Identity, check_session_certificate, session_certificate
from sottovoce.vertical.engines.seat import Seat, SessionCard, on_this_machine
from support.authority import Authority, _pem

NAMES = ("insurer", "bank", "clinic")
SESSION, PLAN, PROGRAMS = b"session-1", "a" * 64, "b" * 64
_DAY = datetime.timedelta(days=1)


@pytest.fixture(autouse=True)
def engine(monkeypatch):
    """Engines that are only told what they would have been started with."""
    monkeypatch.setattr(seat, "available_engines", lambda: {"spu": "spu 1", "shamir": "shamir 1", "in-process": "1"})
    process, in_process = types.ModuleType("process"), types.ModuleType("in_process")
    process.EngineProcess = lambda *args, **named: (args, named)
    in_process.InProcessEngine = lambda *args: args
    monkeypatch.setitem(sys.modules, "sottovoce.vertical.engines.process", process)
    monkeypatch.setitem(sys.modules, "sottovoce.vertical.engines.in_process", in_process)


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture(scope="module")
def folders(authority, tmp_path_factory):
    place = tmp_path_factory.mktemp("identities")
    return {name: authority.identity(place / name, name) for name in NAMES}


@pytest.fixture
def take(folders):
    """Take seats that are given back at the end."""
    taken = []

    def _take(name, *, session=SESSION, engine="spu", plan=PLAN, programs=PROGRAMS, **changes):
        site = ComputeSite(**{"partners": NAMES, "identity": folders.get(name), **changes})
        taken.append(Seat.take(site, name, session, engine, plan, programs))
        return taken[-1]

    yield _take
    for each in taken:
        each.close()


def _changed(card, **changes):
    return json.dumps({**json.loads(card), **changes}, sort_keys=True, separators=(",", ":"))


def _refused(seat, cards, match, names=NAMES):
    with pytest.raises(EngineError, match=match):
        seat.sit(cards, names)


def test_partners_with_identities_sit_down_together(take):
    seats = [take(name) for name in NAMES]
    cards = [each.card for each in seats]
    for rank, each in enumerate(seats):
        (kind, found, addresses), named = each.sit(cards, NAMES)
        assert (kind, found) == ("spu", rank)
        assert addresses == [f"127.0.0.1:{json.loads(card)['port']}" for card in cards]
        certificate, key, partners = (named["tls"] / f"{each}.pem" for each in ("certificate", "key", "partners"))
        others = [json.loads(card)["certificate"] for i, card in enumerate(cards) if i != rank]
        assert partners.read_text() == "".join(others)
        assert certificate.read_text() == json.loads(each.card)["certificate"]
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
        each.close()
        assert not key.parent.exists()
        each.close()


def test_a_trial_on_one_machine_needs_no_identity(take):
    seats = [take(name, identity=None, partners=None) for name in NAMES]
    cards = [each.card for each in seats]
    (_, rank, addresses), named = seats[1].sit(cards, NAMES)
    assert (rank, named["tls"], named["timeout"]) == (1, None, 600.0)
    assert named["listen"] == addresses[1]


def test_parties_of_one_process_need_nothing():
    seats = [Seat.take(None, name, SESSION, "in-process", PLAN, PROGRAMS) for name in NAMES[:2]]
    cards = [each.card for each in seats]
    assert [each.sit(cards, NAMES[:2]) for each in seats] == [(SESSION, rank, 2, 600.0) for rank in range(2)]


def test_the_port_is_one_of_the_sites_and_nobody_elses_until_the_seat_is_given_back(take):
    """Also while its engine is not there yet."""
    with socket.create_server(("127.0.0.1", 21201)):
        seats = [take(name, identity=None, ports=(21201, 21204)) for name in NAMES]
        cards = [each.card for each in seats]
        assert [json.loads(card)["port"] for card in cards] == [21202, 21203, 21204]
        seats[0].sit(cards, NAMES)
        with pytest.raises(EngineError, match="no port of 21201 to 21204 is free at 'insurer'"):
            take("insurer", ports=(21201, 21204))
        seats[0].close()
        assert json.loads(take("insurer", ports=(21201, 21204)).card)["port"] == 21202


def test_without_an_identity_there_is_no_seat_for_other_machines(take):
    with pytest.raises(EngineError, match="'bank' has no identity, so it computes on one machine alone"):
        take("bank", identity=None, host="192.0.2.7")


# ------------------------------------------------------------------ what a coordinator, or a partner, can try


PLAIN = {name: {"identity": None} for name in NAMES}
FAR = "192.0.2.7"


def _of(field, value, place=1):
    """Return a change of one field of a card."""
    return lambda cards: cards.__setitem__(place, _changed(cards[place], **{field: value}))


@pytest.mark.parametrize(
    ("taken", "change", "match"),
    [
        # seats that were taken otherwise, with cards as they are
        ({"bank": {"session": b"session-0"}}, None, "'bank' is of another session: begin again"),
        ({"bank": {"plan": "c" * 64}}, None, "'bank' has another plan"),
        ({"bank": {"programs": "c" * 64}}, None, "'bank' has other programs"),
        ({"bank": {"engine": "shamir"}}, None, "'bank' has another engine, 'shamir' for 'spu' at 'insurer'"),
        ({"bank": {"identity": None}}, None, "'bank' is not signed"),
        ({"insurer": {"identity": None}}, None, "'bank' has an identity and 'insurer' has none"),
        ({"insurer": {"partners": ("bank",)}}, None, "'insurer' does not compute with 'clinic': its owner must name"),
        (
            {"insurer": {"partners": None}, "bank": {"host": FAR}}, None,
            "'bank' is on another machine, and 'insurer' has not a list",
        ),
        # signed cards that were changed on their way
        *(({}, _of(field, value), "the card of 'bank' was not signed with its key") for field, value in (
            ("port", 21399), ("host", "192.0.2.1"), ("plan", "c" * 64), ("programs", "c" * 64), ("session", "00"),
            ("engine", "shamir"), ("certificate", session_certificate("bank")[1].decode()), ("signature", "00"),
        )),
        ({}, _of("name", "clinic"), "the card of 'bank' is another party's"),
        ({}, _of("port", 21399, 2), "the card of 'clinic' was not signed"),
        ({}, _of("port", 21399, 0), "'insurer' is not the one that it gave"),
        ({}, lambda cards: cards.__setitem__(2, cards[1]), "the card of 'clinic' is another party's"),
        ({}, lambda cards: cards.__setitem__(2, _changed(cards[1], name="clinic")), "'clinic' is another one's"),
        ({}, lambda cards: cards.pop(), "2 cards came for 3 parties"),
        # cards without a signature, of a trial
        (PLAIN, _of("host", FAR), "'bank' is on another machine, and 'insurer' has not an identity"),
        (
            PLAIN, lambda cards: _of("port", json.loads(cards[1])["port"], 2)(cards),
            "'bank' and 'clinic' have one address",
        ),
        *((PLAIN, _of("host", host), "the address of 'bank' is none") for host in (
            "", "a b", "127.0.0.1:80", "-x", "x" * 300,
        )),
    ],
)  # fmt: skip
def test_who_gets_no_seat_is_told_whose_card_it_is(take, taken, change, match):
    seats = [take(name, **taken.get(name, {})) for name in NAMES]
    cards = [each.card for each in seats]
    if change is not None:
        change(cards)
    _refused(seats[0], cards, match)


@pytest.mark.parametrize(
    "odd",
    [
        "", "[]", "{}", "{", "[" * 5000, '{"name":"bank"}', "null", "x" * 30_000,
        lambda card: json.dumps(json.loads(card)),
        lambda card: card.replace('"name":"bank"', '"name":"clinic","name":"bank"'),
        *(partial(_changed, **more) for more in ({"more": 1}, {"port": "1"}, {"port": True})),
    ],
)  # fmt: skip
def test_a_card_is_written_in_one_way(take, odd):
    first, second, third = (take(name, identity=None) for name in NAMES)
    text = odd if isinstance(odd, str) else odd(second.card)
    _refused(first, [first.card, text, third.card], "what came as the card of 'bank' is not a card")


@pytest.mark.parametrize(
    ("name", "other", "said"),
    [
        ("available_engines", lambda: {"spu": "spu 2"}, "another version of the engine, 'spu 2' for 'spu 1'.*both"),
        ("__version__", "0.0.1", "another version of sottovoce, '0.0.1'"),
    ],
)
def test_versions_must_be_the_same(take, monkeypatch, name, other, said):
    mine, third = take("insurer"), take("clinic")
    with monkeypatch.context() as patch:
        patch.setattr(seat, name, other)
        bank = take("bank")
    _refused(mine, [mine.card, bank.card, third.card], said)


def _self_made(folder, authority, folders):
    """Right name, signed by its own key."""
    made = Authority("bank")
    made.identity(folder, "bank")
    (folder / "certificate.pem").write_bytes((folder / "authority.pem").read_bytes())
    (folder / "key.pem").write_bytes(_pem(made._key))
    return folder


@pytest.mark.parametrize(
    ("identity", "match"),
    [
        (lambda folder, authority, _: authority.identity(folder, "bank", begins=-3 * _DAY, ends=-2 * _DAY),
         r"certificate of 'bank' ended on .* must be renewed"),
        (lambda folder, authority, _: authority.identity(folder, "bank", begins=_DAY / 2), "begins on .*: set the clo"),
        (lambda folder, authority, _: authority.identity(folder, "clinic"), "the certificate of 'bank' is another one"),
        (lambda folder, authority, _: authority.identity(folder, "bank", "clinic"), "of 'bank' is another one's"),
        (lambda folder, authority, _: Authority("project").identity(folder, "bank"), "was not issued by the authority"),
        (_self_made, "'bank' was not issued by the authority"),
    ],
    ids=["ended", "not begun", "of the coordinator", "of two", "of another authority", "self-made"],
)  # fmt: skip
def test_an_identity_that_is_not_good_for_a_name_is_refused_by_partners(
    take, authority, folders, tmp_path, monkeypatch, identity, match
):
    """And by its owner, where the authority is the same."""
    mine, third = take("insurer"), take("clinic")
    folder = identity(tmp_path, authority, folders)
    if "issued" not in match:
        for _ in range(2):  # a failed seat leaves no port behind
            with pytest.raises(EngineError, match=match):
                take("bank", identity=folder, ports=(21210, 21210))
    with monkeypatch.context() as patch:
        patch.setattr(Identity, "check", lambda *args: None)
        bank = take("bank", identity=folder)
    _refused(mine, [mine.card, bank.card, third.card], match)


def test_nothing_is_good_after_the_end_of_the_authority(take, tmp_path):
    folder = Authority("project", ends=-_DAY / 2).identity(tmp_path, "bank")
    with pytest.raises(EngineError, match="the authority's certificate ended on"):
        take("bank", identity=folder)


def test_a_session_certificate_that_has_ended_is_refused(take, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("sottovoce.vertical.engines.identity._AFTER", -datetime.timedelta(minutes=1))
        bank = take("bank")
    mine, third = take("insurer"), take("clinic")
    _refused(mine, [mine.card, bank.card, third.card], "the session certificate of 'bank' ended on")


def test_a_session_certificate_of_whatever_a_partner_likes_is_refused_in_words():
    """One bit of each byte changed: keys of no kind, points of no curve, other dates. None but a last byte may pass."""
    pem = session_certificate("bank")[1].decode()
    der, taken = PEM_cert_to_DER_cert(pem), 0
    for at in range(len(der)):
        other = DER_cert_to_PEM_cert(der[:at] + bytes([der[at] ^ 1 << at % 8]) + der[at + 1 :])
        try:
            check_session_certificate("'bank'", other)
            taken += 1
        except EngineError as error:
            assert str(error).startswith("the session certificate of 'bank' ")
    assert taken <= 1


def test_fingerprints_that_owners_told_each_other_must_match(take, folders):
    text = (folders["bank"] / "certificate.pem").read_bytes()
    right = load_pem_x509_certificate(text).fingerprint(SHA256()).hex(":").upper()
    bank, third = take("bank"), take("clinic")
    told = take("insurer", fingerprints={"bank": right})
    told.sit([told.card, bank.card, third.card], NAMES)
    other = take("insurer", fingerprints={"bank": "00" * 32})
    _refused(other, [other.card, bank.card, third.card], "'bank' has not the fingerprint")


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("certificate.pem", b"no", "certificate.pem of this party's identity is not a certificate"),
        ("key.pem", b"no", "key.pem of this party's identity is no private key"),
        ("key.pem", None, "lacks key.pem"),
        ("key.pem", _pem(rsa.generate_private_key(65537, 2048)), "is no key of an elliptic curve"),
        ("key.pem", _pem(ec.generate_private_key(ec.SECP256R1())), "does not belong to its certificate"),
        ("authority.pem", b"no", "authority.pem of this party's identity is not a certificate"),
    ],
)
def test_an_identity_that_cannot_be_used_is_told_without_its_place(take, authority, tmp_path, name, content, match):
    folder = authority.identity(tmp_path / "kept", "bank")
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(EngineError, match=match) as caught:
        take("bank", identity=folder)
    assert "kept" not in str(caught.value)


def test_a_card_says_all_that_was_signed_and_the_loopback_is_known(take):
    card = SessionCard.from_text("'bank'", take("bank").card)
    assert replace(card, signature="").signed_bytes == card.signed_bytes
    assert len(card.text) < 6000  # several fit one message
    assert all(map(on_this_machine, ("localhost", "127.0.0.1", "127.9.9.9")))
    assert not any(map(on_this_machine, ("0.0.0.0", "localhost.example")))


def test_installed_engines_have_versions(monkeypatch):
    monkeypatch.setattr(installed, "find_spec", lambda name: None if name == "jax" else object())
    monkeypatch.setattr(installed, "version", lambda name: "1.2")
    assert installed.available_engines() == dict.fromkeys(("shamir", "in-process"), f"sottovoce {__version__}")
