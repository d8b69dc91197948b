"""Where the repository's captures, posts and documents are, and the program of the same build."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Callable

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
# Nothing here waits for time to pass, but for what happens; this ends a test in which it never does.
SECONDS_MAX = 300

Program = Callable[..., Any]


@pytest.fixture(scope="session")
def captures() -> Path:
    return REPOSITORY / "crates/host/tests/captures"


@pytest.fixture
def fleet(captures: Path, tmp_path: Path) -> Path:
    """Some captures several times, and one that is none."""
    folder = tmp_path / "captures"
    for copy in range(4):
        shutil.copytree(captures, folder / str(copy))
    (folder / "poisoned.tar.gz").write_bytes(b"\x1f\x8b" + b"\xff" * 999)
    return folder


@pytest.fixture(scope="session")
def program() -> Program:
    """Runs the program, whose output is JSON."""
    path = os.environ.get("IOTOLL_PROGRAM")
    if not path:
        pytest.skip("SKIPPED the program is not named: IOTOLL_PROGRAM")

    def run(*words: str, text: str | None = None) -> Any:
        done = subprocess.run([path, *words], input=text, capture_output=True, text=True, timeout=SECONDS_MAX)
        assert done.returncode in (0, 1), done.stderr
        return json.loads(done.stdout)

    return run


def unpack(post: Path, folder: Path) -> tuple[list[list[str]], Path]:
    """Writes the files of a post of somebody's (txtar), and returns what its head says is to be expected, in words, and the folder."""
    head, *parts = ("\n" + post.read_text()).split("\n-- ")
    for part in parts:
        name, content = part.split(" --\n", 1) if " --\n" in part else (part.removesuffix(" --"), "")
        name, _, target = name.partition(" -> ")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if target:
            path.symlink_to(target)
        else:
            path.write_text(content + "\n")
    expected = [line.removeprefix("expect-").split() for line in head.splitlines() if line.startswith("expect-")]
    return expected, folder
