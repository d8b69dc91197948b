"""The first example of each command's help, and how it ends in a clean root: without QEMU, a network or the adapters that examples name."""

import pathlib
import re
import shutil

from checks import root
from linked import ROOT

# Commands whose example needs what is not there: the exit statuses, and what it says. All others end with 0, or with 1 and findings.
ABSENT = {
    r"lab run": ((2,), r"not installed: qemu-system-x86_64, .*; on Debian: apt install"),
    r"lab fetch": ((2,), r"the keys of the Debian archive are not on this host .*; install the package"),
    r"bench transfer|blk (?!list)\w+.*": ((2,), r"0000:3b:00.0 is not an NVMe controller of this host; `iotoll blk list` lists them"),
}
# Commands that run until Ctrl-C, with what they say before, and seconds after which they get one.
ENDLESS = {"bench net": r"listening on TCP 192.0.2.2", "watch": ""}
ENDLESS_S = 30
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
    (folder / "image.bin").write_bytes(bytes(4096))


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


def expectation(command):
    """The exit statuses with which an example may end, and what it says."""
    if command in ENDLESS:
        # 124 is that of coreutils' timeout, not of busybox's.
        return (0, 1, 124), ENDLESS[command]
    absent = [(statuses, words) for pattern, (statuses, words) in ABSENT.items() if re.fullmatch(pattern, command)]
    return absent[0] if absent else ((0, 1), "")


def check_example(clean, command, example):
    # Without a pipe, which would hide the exit status.
    example = example.partition(" | ")[0]
    status, text = root.run(clean, f"timeout -s INT {ENDLESS_S} {example}" if command in ENDLESS else example, WORK)
    statuses, words = expectation(command)
    print(f"  {status} {example}", flush=True)
    if status in statuses and re.search(words, text):
        return []
    return [f"{example}: ended with {status}, expected one of {statuses} and {words!r}: {text[-600:]}"]
