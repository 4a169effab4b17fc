"""What owners of sites may have made of the code that they run; see `support.changed_site`.

Each function changes the process that it is called in. What a hostile coordinator does in a run, and what came of it,
it writes into the run's folder.
"""

import gc
import json
import os
import struct
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any


def _in_run() -> bool:
    return any(word.endswith(("worker_process", "runner_process")) for word in sys.orig_argv)


# ------------------------------------------------------------------ parties that lie


def _garbage(answer: bytes) -> bytes:
    return os.urandom(1000)


def _empty(answer: bytes) -> bytes:
    return b""


def _truncated(answer: bytes) -> bytes:
    return answer[: len(answer) // 2]


def _not_a_number(answer: bytes) -> bytes:
    return answer[:-8] + struct.pack("<d", float("nan"))


def _too_few(answer: bytes) -> bytes:
    """Return the same reply with the end of its first vector or bytes missing: well formed, but not one a row."""
    from dataclasses import fields, replace

    import numpy as np

    from sottovoce.vertical.wire import Message, decode

    reply = decode(
        answer, [kind for kind in Message.__subclasses__() if kind.code == int.from_bytes(answer[4:6], "little")]
    )
    for field in fields(reply):  # type: ignore[arg-type]
        value = getattr(reply, field.name)
        if isinstance(value, (np.ndarray, bytes)) and len(value):
            return replace(reply, **{field.name: value[:-1]}).encode()  # type: ignore[type-var]
    return answer


def _huge(answer: bytes) -> bytes:
    return answer + bytes(300_000_000)


def _raises(answer: bytes) -> bytes:
    raise RuntimeError("row 17: secret")


def _hangs(answer: bytes) -> bytes:
    time.sleep(3600)
    return answer


def _no_bytes(answer: bytes) -> Any:
    return {"answer": [1, 2, 3]}


LIES = {
    "garbage": _garbage, "empty": _empty, "truncated": _truncated, "nan": _not_a_number, "short": _too_few,
    "huge": _huge, "raises": _raises, "hangs": _hangs, "object": _no_bytes,
}  # fmt: skip


def lies() -> None:
    """Make the party lie from the fifth request of a run on, or another one: as its file ``lie.txt`` says."""
    if not _in_run():
        return
    name, _, first = (Path(os.environ["TRIAL_KIT"]) / "lie.txt").read_text().partition(" ")
    lie, begins = LIES[name], int(first or 5)

    from sottovoce.vertical.flare.hardening.envelope import PartyEnd

    honest, count = PartyEnd.answer, 0

    def answer(self: Any, raw: object, number: int, content: bytes, ledger: str) -> Any:
        nonlocal count
        count += 1
        told = lie(content) if count > begins else content  # the first one begins the run
        return honest(self, raw, number, told, ledger) if isinstance(told, bytes) else told

    PartyEnd.answer = answer  # type: ignore[method-assign]


# ------------------------------------------------------------------ a party that attacks another one


def calls_others() -> None:
    """Make a party call the others of its run as if it were the coordinator, and write down what they say."""
    if not _in_run():
        return

    from sottovoce.vertical.flare.hardening import gate

    honest = gate.Gate.open
    file = Path(os.environ["TRIAL_KIT"]) / "heard.json"

    def begin(self: Any, *args: Any, **more: Any) -> None:
        honest(self, *args, **more)
        from nvflare.collab import collab
        from nvflare.collab.api.context import set_call_context

        context = collab.context
        others = [proxy for proxy in collab.clients if proxy.name != collab.site_name]

        def attack() -> None:
            set_call_context(context)
            heard = {}
            for proxy in others:
                for _ in range(100):
                    try:
                        heard[proxy.name] = _in_words(proxy(timeout=10.0).answer(raw=_describe_frame()))
                        if "has not begun" not in heard[proxy.name]:
                            break
                    except Exception as error:  # it is not there yet
                        heard[proxy.name] = f"{type(error).__name__}: {error}"
                    time.sleep(0.1)
            file.write_text(json.dumps(heard))

        threading.Thread(target=attack).start()

    gate.Gate.open = begin  # type: ignore[method-assign]


def _describe_frame(session: bytes | None = None, step: int = 1) -> bytes:
    from sottovoce.vertical.protocols.general.messages import Describe
    from sottovoce.vertical.wire import Frame, new_session

    return Frame(session or new_session(), step, Describe().encode()).encode()


# ------------------------------------------------------------------ a party that speaks as the coordinator


def keeps_tokens() -> None:
    """Write down each token that the server signs for this party's site: those of before stay signed."""
    from nvflare.private.fed.client import communicator

    honest = communicator.set_add_auth_headers_filters
    file = Path(os.environ["TRIAL_KIT"]) / "tokens.json"

    def keep(cell: Any, client_name: str, auth_token: str, token_signature: str, ssid: Any = None) -> Any:
        known = json.loads(file.read_text()) if file.exists() else []
        file.write_text(json.dumps([*known, [client_name, auth_token, token_signature]]))
        return honest(cell, client_name, auth_token, token_signature, ssid)

    if not _in_run():
        communicator.set_add_auth_headers_filters = keep


def impersonates() -> None:
    """In a run, send the requests of ``forged.json`` to "north" in the coordinator's name, under an earlier token.

    What was sent is written into ``sent.json``.
    """
    keeps_tokens()
    if not _in_run():
        return
    from nvflare.collab.runtime import dispatch

    honest, addressed = dispatch._call_app_method, threading.Event()

    def call(request: Any, app: Any, logger: Any) -> Any:
        if not addressed.is_set():  # the coordinator's own first request says how a party is addressed
            addressed.set()
            target = str(request.get_header("collab__target_name")).replace("bank", "north")
            threading.Thread(target=_impersonate, args=(target,), daemon=True).start()
        return honest(request, app, logger)

    dispatch._call_app_method = call


def _impersonate(target: str) -> None:
    from nvflare.collab.runtime.defs import CALL_PROTOCOL_VERSION, MSG_CHANNEL, MSG_TOPIC, CallHeaderKey, ObjectCallKey
    from nvflare.fuel.f3.cellnet.cell import Cell
    from nvflare.fuel.f3.cellnet.core_cell import CoreCell
    from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
    from nvflare.fuel.f3.cellnet.utils import new_cell_message

    from sottovoce._files import write_whole

    kit = Path(os.environ["TRIAL_KIT"])
    name, token, signature = json.loads((kit / "tokens.json").read_text())[0]
    (core,) = CoreCell.ALL_CELLS.values()
    job = core.get_fqcn().partition(".")[2]
    (cell,) = [one for one in gc.get_objects() if type(one) is Cell][:1]
    honest = core._send_to_endpoint
    sent = []

    def send(to_endpoint: Any, message: Any) -> Any:
        if str(message.get_header(MessageHeaderKey.DESTINATION, "")).startswith("north"):
            headers = {"client_name": name, "__token__": token, "__token_signature__": signature}
            for key, value in {MessageHeaderKey.ORIGIN: f"server.{job}", **headers}.items():
                message.set_header(key, value)
            sent.append(str(message.get_header(MessageHeaderKey.TOPIC)))
        return honest(to_endpoint, message)

    core._send_to_endpoint = send

    def ask(raw: bytes) -> None:
        request = new_cell_message(
            {CallHeaderKey.PROTOCOL_VERSION: CALL_PROTOCOL_VERSION, CallHeaderKey.TARGET_NAME: target,
             CallHeaderKey.METHOD_NAME: "answer"},
            {ObjectCallKey.CALLER: "server", ObjectCallKey.TARGET_NAME: target, ObjectCallKey.METHOD_NAME: "answer",
             ObjectCallKey.ARGS: (), ObjectCallKey.KWARGS: {"raw": raw}},
        )  # fmt: skip
        try:
            cell.send_request(
                channel=MSG_CHANNEL, target=f"north.{job}", topic=MSG_TOPIC, request=request, timeout=5.0, optional=True
            )
        except Exception as error:
            sent.append(repr(error))

    # all at once: the run ends as soon as the coordinator hears of one
    for raw in (raws := _forged(kit, job, json.loads((kit / "forged.json").read_text()))):
        threading.Thread(target=ask, args=(raw,), daemon=True).start()
    while len(sent) < len(raws):
        time.sleep(0.001)
    write_whole(kit / "sent.json", json.dumps(sent))


def _forged(kit: Path, job: str, frames: list[str]) -> list[bytes]:
    """Return frames as they are, and in envelopes of the coordinator that this party signed."""
    raws = [bytes.fromhex(text) for text in frames]
    try:
        from sottovoce.vertical.engines.identity import Identity
        from sottovoce.vertical.flare.hardening.envelope import REQUEST, CoordinatorEnd
    except ImportError:  # before there were any
        return raws
    end = CoordinatorEnd(Identity(kit / "identity"), "lab", "north", job, "", lambda entry: None)
    return raws + [end._seal(REQUEST, 2**40 + i, raw, ledger="") for i, raw in enumerate([b"", *raws])]


# ------------------------------------------------------------------ a coordinator that attacks its parties


def coordinator() -> None:
    """Let the coordinator take any job, send commands without asking for leave, and do an attack in the place of a run.

    A run of this coordinator attacks if its folder has ``attack.txt``.
    """
    if _in_run():
        _attack_in_runs()
    else:
        _send_commands()
    _permit_everything()


def _send_commands() -> None:
    """Send what stands in ``commands.json`` to all parties, bare, and write their answers into ``answers.json``."""
    from nvflare.private.admin_defs import Message
    from nvflare.private.fed.server import admin

    honest = admin.FedAdminServer.__init__
    kit = Path(os.environ["TRIAL_KIT"])

    def begin(self: Any, *args: Any, **more: Any) -> None:
        honest(self, *args, **more)

        def watch() -> None:
            while not (kit / "commands.json").exists():
                time.sleep(0.2)
            answers = []
            for topic, body, job in json.loads((kit / "commands.json").read_text()):
                for token in list(self.clients):
                    asked = Message(topic=topic, body=body)
                    if job is not None:
                        asked.set_header("job_id", job)
                        asked.set_header("job_meta", {"name": "x"})
                    asked.set_header("user_role", "project_admin")
                    reply = self.send_request_to_client(asked, token, timeout_secs=5.0)
                    answers.append(
                        f"{topic} {body}: {None if reply is None or reply.reply is None else reply.reply.body}"
                    )
            (kit / "answers.json").write_text(json.dumps(answers))

        threading.Thread(target=watch, daemon=True).start()

    admin.FedAdminServer.__init__ = begin


def _permit_everything() -> None:
    from nvflare.app_common.widgets import component_path_authorizer as classes
    from nvflare.fuel.sec import authz
    from nvflare.private.fed.server import admin, job_cmds, shell_cmd

    authz.AuthorizationService.authorize = staticmethod(lambda context: (True, ""))
    classes.ComponentPathAuthorizer.authorize_component_config = lambda *args, **kwargs: None
    honest = admin.new_message

    def without_leave(*args: Any, **kwargs: Any) -> Any:
        message = honest(*args, **kwargs)
        message.set_header("require_authz", "false")
        return message

    for module in (admin, job_cmds, shell_cmd):
        if hasattr(module, "new_message"):
            module.new_message = without_leave


def _attack_in_runs() -> None:
    from sottovoce.vertical.flare import coordinator as sites
    from sottovoce.vertical.flare import programs

    honest = programs.execute

    def execute(kit: Any, run: str, job: str, call: Any, **more: Any) -> str:
        folder = Path(kit.runs) / run
        if not (folder / "attack.txt").exists():
            return honest(kit, run, job, call, **more)
        came = {}
        carry = programs.signed(kit, job, call)
        for name, attack in ATTACKS.items():
            try:
                came[name] = attack(kit, call if attack is _not_bytes else carry)
            except Exception as error:
                came[name] = {"error": f"{type(error).__name__}: {error}", "where": traceback.format_exc()[-2000:]}
        (folder / "attack.json").write_text(json.dumps(came))
        (folder / "status.json").write_text(json.dumps({"phase": "done", "rounds": 0}))
        return "done"

    sites.execute = execute


def _said(kit: Any, call: Any, raw: bytes) -> dict[str, Any]:
    """Ask all parties one thing and return what they said, in words."""
    return {name: _told(call, name, raw) for name in kit.federation.parties}


def _told(call: Any, name: str, raw: Any) -> str:
    try:
        return _in_words(call(name, raw, 20.0))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _in_words(answer: Any) -> str:
    from sottovoce.vertical.flare.hardening.envelope import _parts
    from sottovoce.vertical.wire import Refused, decode

    if not isinstance(answer, bytes):
        return f"no bytes: {answer!r}"
    if answer[:4] == b"SVE1":
        answer = _parts(answer)[2]
    try:
        return f"refused: {decode(answer, (Refused,)).reason}"  # type: ignore[attr-defined]
    except Exception:
        return f"answered: {len(answer)} bytes"


def _unlisted_method(kit: Any, call: Any) -> dict[str, Any]:
    """Call other methods of the component, and of what it is made of; FLARE's check at the caller is gone."""
    from nvflare.collab import collab
    from nvflare.collab.api.call_opt import CallOption
    from nvflare.collab.api.proxy import Proxy

    honest = Proxy._find_interface
    Proxy._find_interface = lambda self, name: honest(self, "answer")
    came = {}
    for method in ("begin", "end", "handle", "_gate", "__class__", "open", "__init__", "__reduce__"):
        for proxy in collab.clients:
            try:
                got = proxy.call_func(CallOption(timeout=10.0), method, [b"raw"], {})
                came[f"{proxy.name}.{method}"] = f"answered: {got!r}"
            except Exception as error:
                came[f"{proxy.name}.{method}"] = f"{type(error).__name__}: {error}"
    Proxy._find_interface = honest
    return came


def _unlisted_target(kit: Any, call: Any) -> dict[str, Any]:
    from nvflare.collab import collab

    came = {}
    for proxy in collab.clients:
        for target in ("party", "_gate", "executor"):
            try:
                came[f"{proxy.name}/{target}"] = f"answered: {getattr(proxy, target)(timeout=10.0).answer(raw=b'x')!r}"
            except Exception as error:
                came[f"{proxy.name}/{target}"] = f"{type(error).__name__}: {error}"
    return came


def _unlisted_kind(kit: Any, call: Any) -> dict[str, Any]:
    """A message of a kind that no party answers, and a reply in the place of a request."""
    from sottovoce.vertical.wire import Frame, Refused, new_session

    raw = Frame(new_session(), 1, Refused("give me your table").encode()).encode()
    unknown = Frame(new_session(), 1, b"SVM2" + struct.pack("<HQ", 65_000, 0)).encode()
    return {"reply": _said(kit, call, raw), "unknown": _said(kit, call, unknown)}


def _malformed(kit: Any, call: Any) -> dict[str, Any]:
    raws = {
        "empty": b"", "garbage": os.urandom(500), "other version": b"SVF1" + bytes(40), "cut": _describe_frame()[:20],
        "flag": _describe_frame()[:-1] + b"\x40", "lengths": _describe_frame()[:34] + struct.pack("<Q", 2**62) + b"\0",
    }  # fmt: skip
    return {name: _said(kit, call, raw) for name, raw in raws.items()}


def _not_bytes(kit: Any, call: Any) -> dict[str, Any]:
    return {
        repr(value): {name: _told(call, name, value) for name in kit.federation.parties}
        for value in ("text", 7, None, [1], {"raw": "x"})
    }


def _replayed(kit: Any, call: Any) -> dict[str, Any]:
    """Send the same request again, another one of the same step, and steps out of their turn."""
    from sottovoce.vertical.protocols.general.messages import Close, Describe
    from sottovoce.vertical.wire import Frame, new_session

    came: dict[str, Any] = {}
    for name in kit.federation.parties:
        session = new_session()
        first = Frame(session, 1, Describe().encode()).encode()
        second = Frame(session, 2, Describe().encode()).encode()
        came[name] = {
            "first": _told(call, name, first),
            "the same bytes": call(name, first, 20.0) == call(name, first, 20.0),
            "second": _told(call, name, second),
            "the first again": _told(call, name, first),
            "another second": _told(call, name, Frame(session, 2, Close().encode()).encode()),
            "a step left out": _told(call, name, Frame(session, 9, Describe().encode()).encode()),
            "a session never begun": _told(call, name, Frame(new_session(), 5, Describe().encode()).encode()),
        }
    return came


def _session_of_another(kit: Any, call: Any) -> dict[str, Any]:
    """Go on at one party with the session of another one."""
    from sottovoce.vertical.protocols.general.messages import Describe
    from sottovoce.vertical.wire import Frame, new_session

    one, other = kit.federation.parties[:2]
    session = new_session()
    call(one, Frame(session, 1, Describe().encode()).encode(), 20.0)
    return {other: _told(call, other, Frame(session, 2, Describe().encode()).encode())}


def _unallowed(kit: Any, call: Any) -> dict[str, Any]:
    """Ask for scores of single people in a training run."""
    from sottovoce.vertical.protocols.scoring.messages import Score
    from sottovoce.vertical.wire import Frame, new_session

    return _said(kit, call, Frame(new_session(), 1, Score("anything").encode()).encode())


ATTACKS = {
    "unlisted method": _unlisted_method, "unlisted target": _unlisted_target, "unlisted kind": _unlisted_kind,
    "malformed": _malformed, "replayed": _replayed, "session of another": _session_of_another,
    "unallowed": _unallowed, "not bytes": _not_bytes,  # the last: the party then says that it heard a stranger
}  # fmt: skip


# ------------------------------------------------------------------ a site of a joint computation with other code


def other_version() -> None:
    """Run another release, as its card says."""
    from sottovoce.vertical.engines import seat

    if _in_run():
        available = seat.available_engines
        seat.available_engines = lambda: {name: f"{version}.post1" for name, version in available().items()}


def other_programs() -> None:
    """Compile other programs for the same plan."""
    from sottovoce.vertical.protocols.secure.joint_plan import JointPlan

    if _in_run():
        JointPlan.programs_digest = property(lambda self: "0" * 64)  # type: ignore[assignment,method-assign]
