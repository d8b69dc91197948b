"""contrib/sos/iotoll.py in a report that sos itself makes of this host."""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from linked import ROOT

PLUGIN = ROOT / "contrib/sos/iotoll.py"
# sos runs on the system's Python; it is asked for the folder of its plugins.
SYSTEM_PYTHON = "/usr/bin/python3"
# What of an adapter does not change while reports are made.
FACTS = ("class", "coherent_mask_bits", "dma_mask_bits", "dma_path", "driver", "interfaces", "iommu_group", "link", "local_cpus", "numa_node")
# Plugins of sos's that collect most of what an inspection reads.
OTHERS = ["block", "hardware", "kernel", "memory", "networking", "numa", "pci"]


def library(folder):
    """A copy of sos with our plugin, so that the installed one stays as it is. None without sos."""
    found = subprocess.run([SYSTEM_PYTHON, "-c", "import sos; print(sos.__path__[0])"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if found.returncode != 0:
        return None
    shutil.copytree(found.stdout.strip(), folder / "sos")
    shutil.copy(PLUGIN, folder / "sos/report/plugins")
    return folder


def report(python_path, plugins, folder):
    """A report with only these plugins of sos; returns its archive."""
    folder.mkdir()
    code = "import sys, sos; sys.argv[0] = 'sos'; sos.SoS(sys.argv[1:]).execute()"
    words = ["report", "--batch", "--quiet", "--tmp-dir", str(folder), "-o", ",".join(plugins)]
    environment = {**os.environ, "PYTHONPATH": str(python_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([SYSTEM_PYTHON, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    archives = [path for path in folder.glob("*.tar.*") if path.suffix not in (".md5", ".sha256")]
    assert len(archives) == 1, done.stdout
    return archives[0]


def inspect(program, *words):
    done = subprocess.run([program, "inspect", "--json", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def adapters(document):
    return {one["address"]: one for one in document["adapters"]}


def check(program):
    """That an inspection of a report by our plugin alone says of each adapter what one of the host itself does."""
    if os.geteuid() != 0:
        return None
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        python_path = library(folder)
        if python_path is None:
            return None
        ours = inspect(program, "--from", report(python_path, ["iotoll"], folder / "ours"))
        others = inspect(program, "--from", report(python_path, OTHERS, folder / "others"))
    host = inspect(program)
    return differences(adapters(host), adapters(ours)) + unseen(host, ours) + gains(others, ours)


def differences(host, ours):
    wrong = [f"sos: {address} is in one of host and report" for address in sorted(host.keys() ^ ours.keys())]
    for address in sorted(host.keys() & ours.keys()):
        pairs = [(fact, host[address][fact], ours[address][fact]) for fact in FACTS]
        wrong += [f"sos: {address}: {fact} is {there} on the host, {here} in its report" for fact, there, here in pairs if there != here]
    return wrong


def unseen(host, ours):
    known = {one["what"] for one in host["unseen"]}
    return [f"sos: not in the report: {one['what']}" for one in ours["unseen"] if one["what"] not in known]


def gains(others, ours):
    """That our plugin brings what sos's own leave out."""
    masks = [sum(one["dma_mask_bits"] is not None for one in document["adapters"]) for document in (others, ours)]
    print(f"  sos: masks of {masks[0]} adapters without the plugin, of {masks[1]} with it; {len(others['unseen'])} and {len(ours['unseen'])} facts unseen")
    return [] if masks[1] > masks[0] or not ours["adapters"] else [f"sos: {masks[1]} masks with the plugin, {masks[0]} without; expected more"]
