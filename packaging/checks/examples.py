"""The first example of each command's help, and how it ends in a clean root: without QEMU, a network or the adapters that examples name."""

import pathlib
import re
import shutil

from checks import root
from linked import ROOT

# How an example ends where something is not there that it needs: exit status, and what it says. All others end with 0, or with 1 and findings.
ABSENT = {}
WORK = "/work"
CAPTURES = ROOT / "crates/host/tests/captures"
# An adapter that examples name. Where a host has it, examples could unbind it: nothing is run.
ADAPTER = pathlib.Path("/sys/bus/pci/devices/0000:3b:00.0")


def commands(manual):
    """Names of all commands, from the names of manual pages."""
    names = sorted(page.name.removesuffix(".gz").removesuffix(".1") for page in manual.iterdir())
    return [name.removeprefix("iotoll").replace("-", " ").strip() for name in names]


def first_example(text):
    """The first example of a help's text that calls iotoll, without `sudo` and without the explanation beside it."""
    for line in text.partition("\nExamples:\n")[2].splitlines():
        found = re.match(r"  (?:sudo )?(iotoll(?: \S+)*)", line)
        if found:
            return found.group(1)
    return None


def furnish(folder):
    """Puts the files that examples name into a folder."""
    (folder / "captures").mkdir(parents=True)
    for path in sorted(CAPTURES.glob("x86-*.tar.gz")):
        shutil.copy(path, folder / "captures")
    for path in (ROOT / "data/tolls").glob("x86-vtd-*.json"):
        shutil.copy(path, folder)
    shutil.copytree(ROOT / "experiments", folder / "experiments")
    (folder / "net.secret").write_text("c2VjcmV0IG9mIGEgdGVzdCwgMzIgYnl0ZXMgbG9uZyE=\n")
    (folder / "net.secret").chmod(0o600)


def check(clean, program="iotoll"):
    """Runs the examples in a root where the program is installed, and returns what is wrong."""
    if ADAPTER.exists():
        return [f"this host has {ADAPTER.name}, which examples name: none was run"]
    furnish(clean / WORK.lstrip("/"))
    (clean / "etc/bash_completion.d").mkdir(exist_ok=True)
    status, listed = root.run(clean, f"mkdir manual && {program} man manual && ls manual", WORK)
    wrong = [] if status == 0 else [f"{program} man: {status}: {listed}"]
    for command in commands(clean / "work/manual"):
        status, text = root.run(clean, f"{program} {command} --help", WORK)
        if status != 0:
            wrong.append(f"{program} {command} --help: {status}: {text}")
        example = first_example(text)
        if example is not None:
            wrong += check_example(clean, command, example.replace("iotoll", program, 1))
    return wrong


def check_example(clean, command, example):
    # What runs until Ctrl-C gets one. Without a pipe's end, which would hide the exit status.
    status, text = root.run(clean, f"timeout -s INT 60 {example.partition(' | ')[0]}", WORK)
    expected, words = ABSENT.get(command, (None, ""))
    fits = status in (0, 1) if expected is None else status == expected and re.search(words, text)
    print(f"{status} {example}: {text[:150]!r}")
    return [] if fits else [f"{example}: ended with {status}, expected {expected}, {words!r}: {text[-400:]}"]
