#!/usr/bin/env python3
"""Validates the Job that docs/guide/fleet.md shows against Kubernetes' schema, and runs what its pods run.

    tests/kubernetes.py PROGRAM     # a program with the feature `fleet`

The schema is strict: a field that it does not know is an error. Pods run one after the other, without a cluster: the program by its path with the Job's
arguments and no environment, as in the image, which has no shell and no PATH. All of them together must read each capture once.

Needs `pip install kubernetes-validate`, which brings the schemas.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import kubernetes_validate
    import yaml
except ImportError as error:
    sys.exit(f"tests/kubernetes.py: {error}: pip install kubernetes-validate")

ROOT = Path(__file__).resolve().parent.parent
CAPTURES = ROOT / "crates/host/tests/captures"
COMMANDS = ROOT / "docs/reference/commands.md"
# Kubernetes puts the number of the pod in its place.
INDEX = "$(JOB_COMPLETION_INDEX)"


def job_of_guide():
    blocks = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / "docs/guide/fleet.md").read_text(), re.MULTILINE | re.DOTALL)
    if len(blocks) != 1:
        sys.exit(f"docs/guide/fleet.md: {len(blocks)} blocks of YAML; expected one")
    return yaml.safe_load(blocks[0])


def check_arguments(job, container):
    """What no schema knows."""
    if "command" in container:
        sys.exit("command: would replace the image's entry point; expected args alone")
    arguments, shards = container["args"], job["spec"]["completions"]
    commands = re.findall(r"^## iotoll (\w+)$", COMMANDS.read_text(), re.MULTILINE)
    if arguments[0] not in commands:
        sys.exit(f"args: iotoll has no command {arguments[0]}")
    shard = f"{INDEX}/{shards}"
    if shard not in arguments:
        sys.exit(f"args: {' '.join(arguments)}; expected the shard {shard}, as completions has it")
    # The program starts a thread for each CPU of its limit, and the page says what a thread needs.
    limits = container["resources"]["limits"]
    if not limits.get("cpu", "").isdigit() or not re.fullmatch(r"\d+Gi", limits.get("memory", "")) or int(limits["memory"][:-2]) <= int(limits["cpu"]):
        sys.exit(f"limits: {limits}; expected whole CPUs, and more Gi of memory than CPUs")
    return arguments, shards


def run_pod(program, arguments, index, data):
    """The document of one pod's run."""
    arguments = [word.replace(INDEX, str(index)).replace("/data/", f"{data}/") for word in arguments]
    ran = subprocess.run([program, *arguments, "--json"], env={}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(arguments)}: exit status {ran.returncode}: {ran.stderr}")
    return json.loads(ran.stdout)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    program = Path(sys.argv[1]).resolve()
    job = job_of_guide()
    try:
        version = kubernetes_validate.validate(job, kubernetes_validate.latest_version(), strict=True)
    except kubernetes_validate.ValidationError as error:
        sys.exit(f"docs/guide/fleet.md: {'.'.join(map(str, error.path))}: {error.message}")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    arguments, shards = check_arguments(job, container)
    with tempfile.TemporaryDirectory() as data:
        (Path(data) / "sosreports").symlink_to(CAPTURES)
        runs = [run_pod(program, arguments, index, data) for index in range(shards)]
    inputs, inspected = runs[0]["inputs"], sum(run["inspected"] for run in runs)
    if inputs == 0 or inspected != inputs:
        sys.exit(f"{shards} pods inspected {inspected} of {inputs} captures; expected each once")
    print(f"Kubernetes {version}: the Job fits the schema, and its {shards} pods inspect each of {inputs} captures once")


if __name__ == "__main__":
    main()
