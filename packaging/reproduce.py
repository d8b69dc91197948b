"""Builds a release again, elsewhere, and compares every byte."""

import filecmp
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import programs
from linked import ROOT


def sources(folder):
    """The last commit's files, in another folder."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    subprocess.run(["tar", "-x"], cwd=folder, input=archive, check=True)


def cargo_home(folder):
    """Cargo's folder at another path, with the crates that are there already."""
    folder.mkdir()
    home = pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo"))
    for path in home.iterdir():
        (folder / path.name).symlink_to(path)


def build_again(folder):
    """Builds in a folder whose path, time zone, language and permissions of new files are others."""
    place = folder / "another-folder-with-a-longer-name"
    sources(place)
    cargo_home(folder / "cargo")
    environment = {
        **os.environ,
        "CARGO_HOME": str(folder / "cargo"),
        "CARGO_TARGET_DIR": str(folder / "target"),
        "SOURCE_DATE_EPOCH": str(programs.commit_time()),
        "LC_ALL": "C",
        "TZ": "Asia/Kathmandu",
    }
    command = [sys.executable, "packaging/release", "build", "--out", str(folder / "out")]
    subprocess.run(command, cwd=place, check=True, env=environment, umask=0o077)
    return folder / "out"


def compare(one, other):
    """Names of files that differ or that one folder lacks; says how, where diffoscope is installed."""
    names = sorted({path.name for path in [*one.iterdir(), *other.iterdir()]} - {"SHA256SUMS"})
    differing = []
    for name in names:
        pair = one / name, other / name
        same = all(path.is_file() for path in pair) and filecmp.cmp(*pair, shallow=False)
        print(f"{'same' if same else 'DIFFERS':>8} {name}", flush=True)
        if not same:
            differing.append(name)
            if shutil.which("diffoscope"):
                subprocess.run(["diffoscope", "--max-report-size", "20000", "--exclude-directory-metadata", "yes", *pair])
    return differing


def check(released):
    with tempfile.TemporaryDirectory() as temporary:
        differing = compare(released, build_again(pathlib.Path(temporary)))
    if differing:
        sys.exit(f"not reproduced: {', '.join(differing)}")
