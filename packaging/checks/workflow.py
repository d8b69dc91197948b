"""The workflow that makes a release, by actionlint."""

import os
import shutil
import subprocess

from linked import ROOT

ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"


def actionlint(tools):
    """Where actionlint is: installed, or built by Go. None where there is neither."""
    found = shutil.which("actionlint") or shutil.which("actionlint", path=str(tools / "bin"))
    if found is None and shutil.which("go"):
        subprocess.run(["go", "install", ACTIONLINT], check=True, env={**os.environ, "GOBIN": str(tools / "bin")})
        found = str(tools / "bin/actionlint")
    return found


def check(tools):
    program = actionlint(tools)
    if program is None:
        return None
    done = subprocess.run([program, "-no-color"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return [done.stdout] if done.returncode != 0 else []
