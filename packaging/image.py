"""A container image of a few files, as an OCI archive: what Containerfile describes, without a container engine."""

import datetime
import hashlib
import json
import pathlib
import re

import archive
from layout import Entry

CONTAINERFILE = pathlib.Path(__file__).parent / "Containerfile"
KIND = "application/vnd.oci.image"


def instruction(name):
    """The value of an instruction that Containerfile has once."""
    (value,) = re.findall(rf"^{name} (.*)$", CONTAINERFILE.read_text(), re.MULTILINE)
    return value


def labels(version):
    text = CONTAINERFILE.read_text()
    found = dict(re.findall(r'^(?:LABEL)? +(org\.[\w.]+)="(.*?)"', text, re.MULTILINE))
    return {name: value.replace("$VERSION", version) for name, value in found.items()}


def build(entries, version, time, path, quick):
    layer = archive.tar(entries, time)
    packed = archive.packed(layer, quick)
    created = datetime.datetime.fromtimestamp(time, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    config = {
        "created": created,
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": json.loads(instruction("ENTRYPOINT")), "Labels": labels(version)},
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
        "history": [{"created": created, "created_by": "packaging/release"}],
    }
    blobs = {}

    def blob(data, kind):
        blobs[f"blobs/sha256/{digest(data).removeprefix('sha256:')}"] = data
        return {"mediaType": kind, "digest": digest(data), "size": len(data)}

    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{KIND}.manifest.v1+json",
        "config": blob(as_json(config), f"{KIND}.config.v1+json"),
        "layers": [blob(packed, f"{KIND}.layer.v1.tar+gzip")],
    }
    reference = {**blob(as_json(manifest), f"{KIND}.manifest.v1+json"), "annotations": {"org.opencontainers.image.ref.name": f"iotoll:{version}"}}
    index = {"schemaVersion": 2, "mediaType": f"{KIND}.index.v1+json", "manifests": [reference]}
    files = {"oci-layout": as_json({"imageLayoutVersion": "1.0.0"}), "index.json": as_json(index), **blobs}
    path.write_bytes(archive.tar([Entry(name, data) for name, data in sorted(files.items())], time))


def digest(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def as_json(value):
    return json.dumps(value, sort_keys=True).encode()
