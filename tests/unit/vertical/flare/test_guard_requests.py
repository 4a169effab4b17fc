"""Requests that a party's processes refuse before FLARE sees them, and processes that end with their site."""

import os
import subprocess
import sys
import threading
import time

import pytest

from sottovoce.vertical.flare.hardening import guard
from sottovoce.vertical.flare.hardening.guard import end_with_parent, why_refused

JOB = "82e6a52a-f79b-420c-90af-77832a770dac"


@pytest.mark.parametrize("topic", ["scheduler.check_resource", "train.deploy", "train.start_job", "train.abort"])
def test_the_requests_of_a_run_are_the_coordinators(topic):
    assert why_refused(topic, "server", JOB, "north") == ""
    for other in ("bank", f"bank.{JOB}", f"server.{JOB}", f"north.{JOB}", None):
        assert "coordinator" in why_refused(topic, other, JOB, "north")


def test_a_runs_process_tells_how_its_own_job_goes():
    assert why_refused("train.notify_job_status", f"north.{JOB}", JOB, "north") == ""
    for other in ("bank", f"bank.{JOB}", f"north.{JOB.replace('8', '9')}", "north"):
        assert why_refused("train.notify_job_status", other, JOB, "north")


@pytest.mark.parametrize("job", ["state", "local", "../north", ".", JOB + "x", JOB.upper(), 7])
def test_no_job_is_named_like_a_folder_of_the_site(job):
    """FLARE deletes the folder of a job's name before it unpacks the job."""
    assert "name of a job" in why_refused("train.deploy", "server", job, "north")


@pytest.mark.parametrize("topic", ["sys.shell", "train.restart", "train.configure_job_log", "new", "", None, ["x"], 3])
def test_what_no_run_needs_is_not_answered(topic):
    assert why_refused(topic, "server", JOB, "north") == "a party answers requests of runs only"


def test_flare_still_has_the_request_of_a_runs_process():
    pytest.importorskip("nvflare")
    from nvflare.private.defs import RequestHeader, TrainingTopic

    assert (TrainingTopic.NOTIFY_JOB_STATUS, RequestHeader.JOB_ID) == (guard._OF_JOB, "job_id")


def test_a_process_ends_with_the_one_that_started_it():
    """The middle one of three processes is gone: the last one ends by itself."""
    last = (
        "import sys, time; from sottovoce.vertical.flare.hardening.guard import end_with_parent;"
        "end_with_parent(); print('up', flush=True); time.sleep(60)"
    )
    middle = (
        "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdout=subprocess.PIPE,"
        "start_new_session=True); child.stdout.readline(); print(child.pid, flush=True)"
    )
    out = subprocess.run([sys.executable, "-c", middle, last], capture_output=True, text=True, check=True, timeout=60)
    pid = int(out.stdout)
    deadline = time.monotonic() + 10
    while _runs(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_process_goes_on_while_its_parent_lives():
    ended = threading.Event()
    end_with_parent(lambda status: ended.set())
    assert not ended.wait(0.2)


def _runs(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
