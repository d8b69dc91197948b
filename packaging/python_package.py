"""Python's package: a wheel for glibc 2.17 and newer, and its sources. Only where crates/python exists."""

import os
import shlex
import subprocess
import sys

from linked import ROOT
from programs import ZIG, install_tool

CRATE = ROOT / "crates/python"
MATURIN = "1.14.1"


def build(out, target_folder, time):
    if not CRATE.is_dir():
        print(f"no {CRATE.relative_to(ROOT)}: no wheel is made", file=sys.stderr)
        return
    tools = target_folder / "tools"
    # maturin finds Zig as Python's module.
    paths = [install_tool(tools, f"maturin=={MATURIN}"), install_tool(tools, f"ziglang=={ZIG}")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "CARGO_TARGET_DIR": str(target_folder),
        "SOURCE_DATE_EPOCH": str(time),
    }
    for words in (["build", "--release", "--compatibility", "manylinux2014", "--zig"], ["sdist"]):
        command = [str(paths[0] / "bin/maturin"), *words, "--out", str(out)]
        print(f"$ {shlex.join(command)}", file=sys.stderr, flush=True)
        subprocess.run(command, cwd=CRATE, check=True, env=environment)
