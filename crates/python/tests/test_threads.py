"""Calls let other threads run, and Ctrl-C ends them. No test here measures time: each waits until the other side has done something."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Callable

import iotoll
import pytest
from conftest import SECONDS_MAX


def working_threads() -> int:
    """How many threads of this process work in iotoll: they have its name."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        try:
            names.append((task / "comm").read_text().strip())
        except OSError:
            pass
    return names.count("iotoll")


def until(happened: Callable[[], bool]) -> None:
    """Waits, and runs Python code meanwhile."""
    gave_up = threading.Event()
    timer = threading.Timer(SECONDS_MAX, gave_up.set)
    timer.daemon = True
    timer.start()
    while not happened():
        assert not gave_up.is_set(), "it never happened"
    timer.cancel()


@pytest.fixture(autouse=True)
def nobody_works() -> None:
    """A thread may end a little after its call: that of the test before must not be taken for this test's."""
    until(lambda: working_threads() == 0)


def measure_for_minutes() -> None:
    iotoll.bench.iova(scenarios=["pairs"], threads=[1], contestants=["percpu"], rounds=100_000)


def test_two_calls_and_python_run_at_once(captures: Path) -> None:
    """This thread sees both others in the middle of their calls; it could not look if one of them kept the interpreter."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            iotoll.inspect(captures / "x86-vtd-lazy.tar.gz")

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        until(lambda: working_threads() == 2)
    finally:
        stop.set()
        for worker in workers:
            worker.join()


def test_ctrl_c_ends_a_call() -> None:
    # Shells start jobs in the background with SIGINT ignored, and so Python leaves it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt() -> None:
        until(lambda: working_threads() == 1)
        os.kill(os.getpid(), signal.SIGINT)

    other = threading.Thread(target=interrupt)
    other.start()
    with pytest.raises(KeyboardInterrupt):
        measure_for_minutes()
    other.join()
    signal.signal(signal.SIGINT, before)
    # What it did in the background ends, too.
    until(lambda: working_threads() == 0)


def test_a_handler_that_does_not_raise_ends_nothing() -> None:
    seen = threading.Event()
    before = signal.signal(signal.SIGUSR1, lambda *_: seen.set())

    def interrupt() -> None:
        until(lambda: working_threads() == 1)
        os.kill(os.getpid(), signal.SIGUSR1)

    other = threading.Thread(target=interrupt)
    other.start()
    try:
        # Goes on until the handler has run, which it only can within a call.
        while not seen.is_set():
            iotoll.bench.iova(scenarios=["pairs"], threads=[1], contestants=["percpu"], rounds=20)
    finally:
        other.join()
        signal.signal(signal.SIGUSR1, before)
    assert seen.is_set()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_that_was_forked_works_too(captures: Path) -> None:
    """Pools of threads do not survive a fork; there are none."""
    pytest.importorskip("pyarrow")
    paths = [str(path) for path in captures.glob("*.tar.gz")]
    iotoll._iotoll.tables(paths, 4)
    child = os.fork()
    if child == 0:
        os._exit(0 if len(iotoll._iotoll.tables(paths, 4)) == 5 else 1)
    assert os.waitpid(child, 0)[1] == 0
