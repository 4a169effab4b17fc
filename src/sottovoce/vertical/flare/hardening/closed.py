"""What FLARE reads at a site, written anew at each start: its settings, with what is unsafe by default closed.

A job may use the library's own two classes and FLARE's two that call them, exactly; it can ship no code. The lead,
whose key is at the coordinator, submits jobs, follows and aborts them; nobody else may do anything, and nobody runs
shell commands, reads files or logs of a site, restarts it or changes its settings from outside.
"""

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from sottovoce.exceptions import ParameterError
from sottovoce.vertical.flare.federation import Federation

PURPOSES: Final = ("train", "score")
PARTY_SITE: Final = "sottovoce.vertical.flare.party.PartySite"
COORDINATOR_SITE: Final = "sottovoce.vertical.flare.coordinator.CoordinatorSite"
EXECUTOR: Final = "nvflare.collab.runtime.executor.CollabExecutor"
CONTROLLER: Final = "nvflare.collab.runtime.controller.CollabController"
LEAD: Final = "lead@coordinator.invalid"
"""The only user of a federation, at the coordinator: FLARE wants the shape of an address, nothing is sent there."""

ALLOWED_CLASSES: Final = {"coordinator": [COORDINATOR_SITE, CONTROLLER], "party": [PARTY_SITE, EXECUTOR]}
"""The classes that a job may name, by kind of site."""

_CERTIFICATES: Final = "mtls"  # on both sides of a connection
_HTTP: Final = "http"
_SYNC_SECONDS: Final = 120  # that a party has to open its site: its table is read then
_TASK_SECONDS: Final = 0.5  # between two looks of a party at whether there is a task: there are two, and the end
_NOTHING: Final = dict.fromkeys(
    ("submit_job", "clone_job", "manage_job", "download_job", "view", "operate", "shell_commands", "byoc",
     "server-predeployed-flwr"), "none",
)  # fmt: skip

AUTHORIZATION: Final[dict[str, Any]] = {
    "format_version": "1.0",
    "permissions": {
        **dict.fromkeys(("project_admin", "org_admin", "member"), _NOTHING),
        # one right at a time: among FLARE's rights to manage and view jobs are such as run code at a party and tell
        # its errors
        "lead": {
            **_NOTHING,
            **dict.fromkeys(("submit_job", "check_status", "get_job_meta", "list_jobs"), "any"),
            **dict.fromkeys(("abort", "abort_job", "delete_job"), "n:submitter"),
        },
    },
}

LOGGING: Final[dict[str, Any]] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {
        "()": "nvflare.fuel.utils.log_utils.BaseFormatter",
        "fmt": "%(asctime)s - %(name)s - %(levelname)s - %(fl_ctx)s - %(message)s",
    }},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line", "stream": "ext://sys.stdout"}},
    "loggers": {"root": {"level": "INFO", "handlers": ["console"]}},
}  # fmt: skip
"""One stream, which the site's own process writes to its log; no other file."""


COMMUNICATION: Final[dict[str, Any]] = {
    "allow_adhoc_conns": False,
    "backbone_conn_gen": 2,
    # every message leaves a thread behind that waits for chunks which come twice, for as long as they may (60 s):
    # thousands of them in a long run. A line that was cut for longer ends the run, which is resumed
    "streaming_retry_timeout": 5.0,
    "streaming_retry_wait": 1.0,
    "internal": {"scheme": "tcp", "resources": {"host": "localhost", "connection_security": _CERTIFICATES}},
}
"""A site's process and those of its runs talk by certificates too: others on the machine cannot join in."""


def settings(kind: str, name: str, federation: Federation, state: Path) -> dict[str, dict[str, Any]]:
    """Return all files that FLARE reads at a site, beside its certificates, by their places in the kit.

    ``state`` is where the coordinator keeps its jobs, absolute: FLARE's default is below /tmp, for everybody to read.
    """
    resources: dict[str, Any] = {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": ALLOWED_CLASSES[kind],
        "allow_log_streaming": False,
    }
    coordinator = kind == "coordinator"
    return {
        "local/authorization.json": AUTHORIZATION, "local/comm_config.json": COMMUNICATION,
        "local/log_config.json": LOGGING,
        "local/resources.json": resources | (_of_coordinator(state) if coordinator else _of_party()),
        **(_start_of_coordinator(federation) if coordinator else _start_of_party(name, federation)),
    }  # fmt: skip


def _tls(end: str) -> dict[str, str]:
    return {
        "ssl_private_key": f"{end}.key", "ssl_cert": f"{end}.crt", "ssl_root_cert": "rootCA.pem",
        "connection_security": _CERTIFICATES,
    }  # fmt: skip


def _start_of_coordinator(facts: Federation) -> dict[str, Any]:
    """Return what its server and its lead start with."""
    service = {"target": f"{facts.listens_at}:{facts.port}", "scheme": _HTTP}
    server = {"name": facts.name, "service": service, "admin_server": facts.host, "admin_port": facts.port}
    lead = {
        "project_name": facts.name, "username": LEAD, "server_identity": facts.host, "scheme": _HTTP,
        "host": facts.host, "port": facts.port, "connection_security": _CERTIFICATES, "uid_source": "user_input",
        "with_file_transfer": True, "upload_dir": "transfer", "download_dir": "transfer", "client_key": "client.key",
        "client_cert": "client.crt", "ca_cert": "rootCA.pem",
    }  # fmt: skip
    return {
        "startup/fed_server.json": {"format_version": 2, "servers": [server | _tls("server")]},
        "lead/startup/fed_admin.json": {"format_version": 1, "admin": lead},
    }


def _start_of_party(name: str, facts: Federation) -> dict[str, Any]:
    service = {"target": f"{facts.host}:{facts.port}", "scheme": _HTTP}
    servers = [{"name": facts.name, "service": service, "identity": facts.host}]
    client = _tls("client") | {"fqsn": name, "is_leaf": True}
    return {"startup/fed_client.json": {"format_version": 2, "servers": servers, "client": client}}


def _of_coordinator(state: Path) -> dict[str, Any]:
    storage = "nvflare.app_common.storages.filesystem_storage.FilesystemStorage"
    return {
        "servers": [{"admin_storage": "state/transfer", "max_num_clients": 100, "heart_beat_timeout": 60,
                     "admin_timeout": 10.0}],
        "snapshot_persistor": {
            "path": "nvflare.app_common.state_persistors.storage_state_persistor.StorageStatePersistor",
            "args": {"uri_root": "/",
                     "storage": {"path": storage, "args": {"root_dir": str(state / "snapshots"), "uri_root": "/"}}},
        },
        "components": [
            _component("job_scheduler", "nvflare.app_common.job_schedulers.job_scheduler.DefaultJobScheduler",
                       max_jobs=1),
            _component("job_manager", "nvflare.apis.impl.job_def_manager.SimpleJobDefManager",
                       uri_root=str(state / "jobs"), job_store_id="job_store"),
            _component("job_store", storage),
            _component("process_launcher",
                       "sottovoce.vertical.flare.launcher.GuardedServerLauncher"),
        ],
    }  # fmt: skip


def _of_party() -> dict[str, Any]:
    return {
        "client": {"retry_timeout": 30},
        "components": [
            _component("resource_manager",
                       "nvflare.app_common.resource_managers.gpu_resource_manager.GPUResourceManager",
                       num_of_gpus=0, mem_per_gpu_in_GiB=0, expiration_period=300),
            _component("resource_consumer",
                       "nvflare.app_common.resource_consumers.gpu_resource_consumer.GPUResourceConsumer"),
            _component("process_launcher",
                       "sottovoce.vertical.flare.launcher.GuardedLauncher"),
        ],
    }  # fmt: skip


def _component(name: str, path: str, **arguments: Any) -> dict[str, Any]:
    return {"id": name, "path": path, "args": arguments}


def job_text(end: str, **arguments: str) -> str:
    """Return the configuration of a job at one end, ``server`` or ``client``: two classes, and what ours is told."""
    if end == "server":
        asked = {"server_obj_id": "coordinator", "collab_obj_ids": [], "sync_task_timeout": _SYNC_SECONDS}
        caller: dict[str, Any] = {"workflows": [{"id": "controller", "path": CONTROLLER, "args": asked}]}
        caller["server"] = {"task_request_interval": _TASK_SECONDS}
        ours = {"id": "coordinator", "path": COORDINATOR_SITE, "args": arguments}
    else:
        served = {"client_obj_id": "party", "collab_obj_ids": []}
        caller = {"executors": [{"tasks": ["*"], "executor": {"path": EXECUTOR, "args": served}}]}
        ours = {"id": "party", "path": PARTY_SITE, "args": arguments}
    filters: dict[str, Any] = {"task_data_filters": [], "task_result_filters": []}
    return json.dumps({"format_version": 2, **filters, **caller, "components": [ours]})


# ------------------------------------------------------------------ FLARE itself


_LEAST: Final = (2, 9)  # before: CVE-2026-24178, CVE-2026-24186


def require_engine() -> None:
    """Refuse to go on where FLARE is missing or has known holes."""
    try:
        import fcntl  # noqa: F401
    except ImportError:
        raise ParameterError(
            "Parties at several organisations need Linux or another POSIX system: they lock files and watch processes "
            "as such systems do. `sottovoce vertical simulate` and training in one process need neither."
        ) from None
    remedy = "Install the extra: pip install 'sottovoce[vertical]'."
    try:
        found = version("nvflare")
    except PackageNotFoundError:
        raise ParameterError(f"Parties at several organisations need NVIDIA FLARE (nvflare>=2.9). {remedy}") from None
    if tuple(int(part) for part in found.split(".")[:2]) < _LEAST:
        raise ParameterError(f"nvflare {found} has known holes; 2.9 or later is needed. {remedy}")
