"""What owners of sites may have made of the code that they run; see `support.changed_site`.

Each function changes the process that it is called in. What a hostile coordinator does in a run, and what came of it,
it writes into the run's folder.
"""

import json
import os
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any


def _in_run() -> bool:
    return any(word.endswith(("worker_process", "runner_process")) for word in sys.orig_argv)


def honest() -> None:
    """Change nothing: the site alone does not look at its own certificates."""


# ------------------------------------------------------------------ parties that lie


def _huge(answer: bytes) -> bytes:
    return answer + bytes(300_000_000)


def _raises(answer: bytes) -> bytes:
    raise RuntimeError("row 17: secret")


def _hangs(answer: bytes) -> bytes:
    time.sleep(3600)
    return answer


def _no_bytes(answer: bytes) -> Any:
    return {"answer": [1, 2, 3]}


LIES = {"huge": _huge, "raises": _raises, "hangs": _hangs, "object": _no_bytes}


def lies() -> None:
    """Make the party lie from some request of a run on: how and when stands in its file ``lie.txt``."""
    if not _in_run():
        return
    name, first = (Path(os.environ["TRIAL_KIT"]) / "lie.txt").read_text().split()
    lie, begins = LIES[name], int(first)

    from sottovoce.vertical.flare.hardening.envelope import PartyEnd

    honest, count = PartyEnd.answer, 0

    def answer(self: Any, raw: object, number: int, content: bytes, ledger: str) -> Any:
        nonlocal count
        count += 1
        told = lie(content) if count > begins else content  # the first one begins the run
        return honest(self, raw, number, told, ledger) if isinstance(told, bytes) else told

    PartyEnd.answer = answer  # type: ignore[method-assign]


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
        for name, attack in ATTACKS.items():
            try:
                came[name] = attack(kit, call)
            except Exception as error:
                came[name] = {"error": f"{type(error).__name__}: {error}", "where": traceback.format_exc()[-2000:]}
        (folder / "attack.json").write_text(json.dumps(came))
        (folder / "status.json").write_text(json.dumps({"phase": "done", "rounds": 0}))
        return "done"

    sites.execute = execute


def _unlisted(kit: Any, call: Any) -> dict[str, Any]:
    """Call other methods and objects than the one that is published; FLARE's check at the caller is gone."""
    from nvflare.collab import collab
    from nvflare.collab.api.call_opt import CallOption
    from nvflare.collab.api.proxy import Proxy

    honest = Proxy._find_interface
    Proxy._find_interface = lambda self, name: honest(self, "answer")
    came = {}
    for proxy in collab.clients:
        calls = {
            method: lambda method=method, proxy=proxy: proxy.call_func(CallOption(timeout=10.0), method, [b"raw"], {})
            for method in ("begin", "end", "handle", "_gate", "__class__", "open", "__init__", "__reduce__")
        }
        calls |= {
            target: lambda target=target, proxy=proxy: getattr(proxy, target)(timeout=10.0).answer(raw=b"x")
            for target in ("party", "executor")
        }
        for name, ask in calls.items():
            try:
                came[f"{proxy.name}.{name}"] = f"answered: {ask()!r}"
            except Exception as error:
                came[f"{proxy.name}.{name}"] = f"{type(error).__name__}: {error}"
    Proxy._find_interface = honest
    return came


def _not_bytes(kit: Any, call: Any) -> dict[str, Any]:
    """Things that are no bytes in the place of a request; the last attack: the party then says that it heard one."""
    from sottovoce.vertical.flare.hardening.envelope import _parts
    from sottovoce.vertical.wire import Refused, decode

    came = {}
    for name in kit.federation.parties:
        for value in ("text", 7, None, [1], {"raw": "x"}):
            answer = _parts(call(name, value, 20.0))[2]
            came[f"{name}: {value!r}"] = f"refused: {decode(answer, (Refused,)).reason}"  # type: ignore[attr-defined]
    return came


ATTACKS = {"unlisted": _unlisted, "not bytes": _not_bytes}


# ------------------------------------------------------------------ a site of a joint computation with other code


def other_version() -> None:
    """Run another release, as its card says."""
    from sottovoce.vertical.engines import seat

    if _in_run():
        available = seat.available_engines
        seat.available_engines = lambda: {name: f"{version}.post1" for name, version in available().items()}
