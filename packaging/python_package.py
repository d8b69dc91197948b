"""Python's package: a wheel for glibc 2.17 and newer, and its sources."""

import shlex
import subprocess
import sys

import sbom
from linked import PYTHON_PACKAGE, ROOT
from programs import Toolchain, install_tool

CRATE = ROOT / "crates/python"
MATURIN = "1.14.1"
# What glibc 2.17 is called among wheels.
PLATFORM = "manylinux2014"


def build(out, target_folder, version, time):
    """Writes the wheel, its sources and its bill of materials into a folder."""
    bill = out / f"iotoll-python-{version}.cdx.json"
    bill.write_bytes(sbom.bill("iotoll-python", version, [PYTHON_PACKAGE], time, with_data=True))
    toolchain = Toolchain(target_folder)
    maturin = install_tool(toolchain.tools, f"maturin=={MATURIN}") / "bin/maturin"
    wheel = ["build", "--profile", "dist", "--locked", "--target", PYTHON_PACKAGE.target, "--interpreter", sys.executable]
    wheel += ["--compatibility", PLATFORM, "--sbom-include", str(bill)]
    for words in (wheel, ["sdist"]):
        command = [str(maturin), *words, "--out", str(out)]
        print(f"$ {shlex.join(command)}", file=sys.stderr, flush=True)
        subprocess.run(command, cwd=CRATE, check=True, env=toolchain.environment(PYTHON_PACKAGE))
