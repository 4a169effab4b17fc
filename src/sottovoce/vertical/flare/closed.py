"""What FLARE may do at a site: its settings, with what is unsafe by default closed.

A job may use the library's own two classes and FLARE's two that call them, exactly; it can ship no code. The lead,
whose key is at the coordinator, submits jobs, follows and aborts them; nobody else may do anything, and nobody runs
shell commands, reads files or logs of a site, restarts it or changes its settings from outside.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from sottovoce.vertical.flare.engine import CONTROLLER, COORDINATOR_SITE, EXECUTOR, PARTY_SITE

__all__ = ["ALLOWED_CLASSES", "AUTHORIZATION", "COMMUNICATION", "LOGGING", "resources"]

ALLOWED_CLASSES: Final = {"coordinator": [COORDINATOR_SITE, CONTROLLER], "party": [PARTY_SITE, EXECUTOR]}
"""The classes that a job may name, by kind of site."""

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
    "internal": {"scheme": "tcp", "resources": {"host": "localhost", "connection_security": "mtls"}},
}
"""A site's process and those of its runs talk by certificates too: others on the machine cannot join in."""


def resources(kind: str, state: Path) -> dict[str, Any]:
    """Return the resources of a site.

    Parameters
    ----------
    kind : {"coordinator", "party"}
    state : Path
        Absolute: where the coordinator keeps its jobs (FLARE's default is below /tmp, for everybody to read).
    """
    closed: dict[str, Any] = {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": ALLOWED_CLASSES[kind],
        "allow_log_streaming": False,
    }
    return closed | (_of_coordinator(state) if kind == "coordinator" else _of_party())


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
