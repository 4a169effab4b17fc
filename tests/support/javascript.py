"""The JavaScript module, as the tests in Python ask it."""

import importlib.util
import json
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ANSWERS = Path(__file__).parent / "javascript" / "answer.mjs"
LEAST_NODE = 20


class JavaScriptError(Exception):
    """The module refused."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.message = message


class Node:
    """One process that answers requests."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def ask(self, what: str, **details: Any) -> Any:
        """Return an answer; the first question starts the program, or skips the test where there is none."""
        if self._process is None:
            self._process = subprocess.Popen(
                [node_program(), str(ANSWERS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"ask": what, **as_json(details)}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "node has ended"
        reply = json.loads(line)
        if "error" in reply:
            raise JavaScriptError(reply["error"], reply["message"])
        return reply["answer"]

    def close(self) -> None:
        if self._process is not None:
            with self._process as process:
                process.stdin.close()


def as_json(value: Any) -> Any:
    """Write what JSON cannot say as an object that the other side knows."""
    if isinstance(value, dict):
        return {key: as_json(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(entry) for entry in value]
    if isinstance(value, float) and math.isnan(value):
        return {"js": "NaN"}
    if isinstance(value, float) and math.isinf(value):
        return {"js": "Infinity" if value > 0 else "-Infinity"}
    return value


def node_program() -> str:
    """Return the node of this system, or the one that comes with playwright; skip where neither is new enough."""
    for program in (shutil.which("node"), _node_of_playwright()):
        if program is not None and _version(program) >= LEAST_NODE:
            return program
    pytest.skip(f"node >= {LEAST_NODE} is not installed")


def _version(program: str) -> int:
    text = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return int(text.strip().lstrip("v").split(".")[0])


def _node_of_playwright() -> str | None:
    found = importlib.util.find_spec("playwright")
    return None if found is None else shutil.which(Path(found.origin).parent / "driver" / "node")
