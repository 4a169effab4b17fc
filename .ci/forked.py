"""Run tests in forks, with one change of the source at a time: ``python .ci/forked.py KEPT FILE... -- TEST...``.

One process has imported all libraries; a fork of it has collected the tests. A change inside a function is made in
forks of the second, by giving the function its new code: such a mutant costs no more than the tests it takes, which are
those that called the function before, the quickest first. Whatever else is changed (constants, defaults, what is
compiled) is found on disk by forks of the first, which import the checkout anew. KEPT is 1 where changes are in
nothing that is compiled: machine code is then kept although other files have changed, which ours asks by itself
(`sottovoce._compiling`).

Writes one line of JSON when all tests have passed (``seconds`` of each test; ``called``: by which tests each function
of the files is called), and one for each line that it reads: ``function``, and the ``text`` of the ``file`` then, or
null for what is on disk. The answer names the test that ``failed`` and how many ``seconds`` of the processor it took;
null where all passed. `.ci/mutants.py` asks it.
"""

import gc
import importlib
import json
import os
import resource
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

import pytest

OPTIONS = [
    "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow and not federation",
    "-W", "ignore::pytest.PytestAssertRewriteWarning",  # plugins are imported before
]  # fmt: skip
MOST_MEMORY = 4 * 2**30  # a loop without an end may fill a list
LIBRARIES, COMPILED = Path("libraries.txt"), Path("compiled.txt")
NO_END: Final = "no end"  # in place of the name of a test


def in_fork(log: str, seconds: float, run: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a function returns in a fork, which prints to a file, and its processor time; None if it died."""
    receiver, sender = os.pipe()
    fork = os.fork()
    if not fork:
        os.setsid()
        os.close(receiver)
        signal.alarm(60 + 10 * round(seconds))  # whoever waits for what never comes takes no time of the processor
        limit = max(1, round(seconds))
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        with os.fdopen(sender, "w") as told:
            told.write(json.dumps(run()))
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver) as told:
        answer = told.read()
    _, _, used = os.wait4(fork, 0)
    return json.loads(answer) if answer else None, used.ru_utime + used.ru_stime


def quickly_failing(item: Any) -> None:
    """Have hypothesis stop at the first counterexample: nobody reads a smaller one."""
    hypothesis = importlib.import_module("hypothesis")
    test = getattr(getattr(item, "obj", None), "__func__", getattr(item, "obj", None))
    given = getattr(test, "_hypothesis_internal_use_settings", None)
    if given is not None:
        phases = [phase for phase in given.phases if phase.name in ("explicit", "generate")]
        test._hypothesis_internal_use_settings = hypothesis.settings(given, phases=phases)


def ran(items: list[Any]) -> str | None:
    """Run tests until one fails, and return its name."""
    for item, following in zip(items, [*items[1:], None], strict=True):
        quickly_failing(item)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if item.session.testsfailed:
            return str(item.nodeid)
    return None


class Quickest:
    """Runs the quickest tests first, until one fails."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds, self.failed = seconds, NO_END

    def pytest_runtestloop(self, session: Any) -> bool:
        self.failed = ran(sorted(session.items, key=lambda item: self.seconds.get(item.nodeid, 0.0)))
        return True


class Collected:
    """Answers what is asked of functions, once the tests are collected."""

    def __init__(self, files: list[str], tests: list[str], answer: Any, asked: Iterator[str]) -> None:
        self._files, self._paths = files, {str(Path(file).resolve()) for file in files}
        self._tests, self._answer, self._asked = tests, answer, asked
        self._here: list[set[str]] = [set()]
        self._shared: dict[str, set[str]] = defaultdict(set)
        self._setup: dict[str, float] = defaultdict(float)

    def pytest_runtestloop(self, session: Any) -> bool:
        items, known = {item.nodeid: item for item in session.items}, self._functions()
        asked_for_in_vain = [test for test in self._tests if not any(is_of(item, test) for item in items)]
        if asked_for_in_vain:  # they are slow, or of a federation
            first = {"failed": asked_for_in_vain}
        else:
            first, _ = in_fork("first.log", 3600, lambda: self._first(session.items))
        print(json.dumps(first), file=self._answer, flush=True)
        for line in self._asked if first["failed"] is None else ():
            given = json.loads(line)
            compiled = given["compiled"]  # nobody sees who calls it, nor what is called in forks of a test alone
            called = (not compiled and first["called"].get(given["function"])) or first["seconds"]
            tests = sorted(called, key=first["seconds"].__getitem__)
            limit = 3.0 + 3.0 * sum(first["seconds"][test] for test in tests) + 120.0 * compiled
            change = known.get(given["function"], ()), Path(given["text"]).read_text(encoding="utf-8"), given["file"]
            tried = partial(
                ran_with, compiled, *change, given["function"].partition(":")[2], [items[test] for test in tests]
            )
            failed, took = in_fork("run.log", limit, tried) if tests else ([None], 0.0)
            told = {"failed": NO_END if failed is None else failed[0], "seconds": took, "tests": len(tests)}
            print(json.dumps(told), file=self._answer, flush=True)
        return True

    def _functions(self) -> dict[str, list[FunctionType]]:
        found, files = defaultdict(list), self._paths
        for file in self._files:  # some are imported when they are first needed
            importlib.import_module(".".join(Path(file).with_suffix("").parts[1:]))
        gc.unfreeze()
        for one in gc.get_objects():
            if type(one) is FunctionType and one.__code__.co_filename in files:
                found[name_of(one.__code__)].append(one)
        gc.freeze()
        return found

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Any:
        """Note what a fixture calls that several tests share: each of them depends on it."""
        self._here.append(set())
        start = time.process_time()
        try:
            return (yield)
        finally:
            here = self._here.pop()
            self._here[-1] |= here
            if fixturedef.scope != "function":
                self._shared[fixturedef.argname] |= here
                self._setup[fixturedef.argname] = time.process_time() - start

    def _first(self, items: list[Any]) -> dict[str, Any]:
        """Run all tests, and note which functions each of them calls, and how long it takes."""
        called, seconds = {}, {}

        def note(frame: Any, event: str, _: Any) -> None:
            if frame.f_code.co_filename in self._paths:
                self._here[-1].add(name_of(frame.f_code))

        threading.settrace(note)
        for item, following in zip(items, [*items[1:], None], strict=True):
            self._here = [set()]
            start = time.process_time()
            sys.settrace(note)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            sys.settrace(None)
            seconds[item.nodeid] = time.process_time() - start
            called[item.nodeid] = self._here[0]
            if item.session.testsfailed:
                return {"failed": item.nodeid}
        by_function = defaultdict(list)
        for item in items:
            seconds[item.nodeid] += sum(self._setup[fixture] for fixture in item.fixturenames)
            for name in called[item.nodeid].union(*(self._shared[fixture] for fixture in item.fixturenames)):
                by_function[name].append(item.nodeid)
        return {"failed": None, "seconds": seconds, "called": by_function}


def is_of(name: str, asked: str) -> bool:
    """Return whether a test is one of those that were asked for: of a file, or of all cases of one."""
    return name == asked or name.startswith((f"{asked}::", f"{asked}["))


def name_of(code: CodeType) -> str:
    """Return the file of a function and its name there; of one inside another that of the outer one."""
    return f"{code.co_filename}:{code.co_qualname.partition('.<locals>')[0]}"


def ran_with(
    compiled: bool, functions: list[FunctionType], text: str, file: str, name: str, items: list[Any]
) -> list[str | None]:
    """Run tests with the code that functions of this name have in a text; return the name of the one that failed."""
    if compiled:  # and so is what calls it: none is taken from where machine code is kept
        gc.unfreeze()
        nothing = importlib.import_module("numba.core.caching").NullCache()
        kernel = importlib.import_module("numba.core.dispatcher").Dispatcher
        for one in [one for one in gc.get_objects() if isinstance(one, kernel)]:
            one._cache = nothing
    waiting, codes = [compile(text, file, "exec")], []
    while waiting:
        code = waiting.pop()
        codes += [code] if code.co_qualname == name else []
        waiting += [one for one in code.co_consts if isinstance(one, CodeType)]
    for function in functions:
        nearest = min(codes, key=lambda code: abs(code.co_firstlineno - function.__code__.co_firstlineno))
        function.__code__ = nearest
    return [ran(items)]


def collected(tests: list[str]) -> int:
    """Collect the tests, and write down which modules of others they imported."""
    code = pytest.main([*OPTIONS, "--collect-only", *tests])
    ours = str(Path.cwd())
    named = {name: str(getattr(module, "__file__", None) or "") for name, module in sys.modules.items()}
    LIBRARIES.write_text("\n".join(name for name, file in named.items() if file and not file.startswith(ours)))
    COMPILED.write_text(str(importlib.import_module("sottovoce._compiling").FOLDER))
    return int(code)


def main(kept: str, files: list[str], tests: list[str]) -> None:
    """Import what the tests need of others, and answer."""
    code, _ = in_fork("collected.log", 600, lambda: collected(tests))
    if code != 0:
        sys.exit(f"the tests cannot be collected (pytest returned {code}): see collected.log.")
    for name in LIBRARIES.read_text().splitlines():
        with suppress(Exception):  # parts of a library that only itself can import
            importlib.import_module(name)

    def run(plugin: Any) -> None:
        if kept == "1":  # with machine code from a folder whatever the sources are
            importlib.import_module("sottovoce._compiling").FOLDER = Path(COMPILED.read_text())
        pytest.main([*OPTIONS, *tests], plugins=[plugin])

    (asked, asks), (answered, answers) = os.pipe(), os.pipe()
    server = os.fork()
    if not server:
        os.close(asks)
        os.close(answered)
        file = os.open("server.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        run(Collected(files, tests, os.fdopen(answers, "w"), iter(os.fdopen(asked))))
        os._exit(0)
    os.close(asked)
    os.close(answers)
    ask, answer = os.fdopen(asks, "w"), os.fdopen(answered)
    first = answer.readline()
    print(first.strip(), flush=True)
    seconds = json.loads(first)["seconds"]
    limit = 10.0 + 3.0 * sum(seconds.values())

    def anew() -> list[str | None]:
        plugin = Quickest(seconds)
        run(plugin)
        return [plugin.failed]

    for line in sys.stdin:
        if json.loads(line)["function"] is None:
            failed, took = in_fork("run.log", limit, anew)
            told = {"failed": NO_END if failed is None else failed[0], "seconds": took, "tests": len(seconds)}
            print(json.dumps(told), flush=True)
        else:
            print(line.strip(), file=ask, flush=True)
            print(answer.readline().strip(), flush=True)
    ask.close()
    os.waitpid(server, 0)


if __name__ == "__main__":
    cut = sys.argv.index("--")
    main(sys.argv[1], sys.argv[2:cut], sys.argv[cut + 1 :])
