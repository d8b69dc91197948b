"""A bill of materials in CycloneDX's JSON: what is linked into a package's programs, and nothing that only builds or tests them."""

import datetime
import json
import re
import subprocess
import uuid

import linked

NAMESPACE = uuid.UUID("5d8b3c53-9d6e-4f0b-8f65-1f0f2f3a7c11")
# What rustc links beside crates. Its musl is that of the target since Rust 1.93; the compiler says no version of it.
MUSL = "1.2.5"


def compiler_version():
    return subprocess.run(["rustc", "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()[1]


def expression(licence):
    """An SPDX expression; old manifests have a slash for OR."""
    return re.sub(r"\s*/\s*", " OR ", licence)


def component(name, version, licence, purl, kind="library", **more):
    return {
        "type": kind,
        "bom-ref": purl,
        "name": name,
        "version": version,
        "licenses": [{"expression": expression(licence)}],
        "purl": purl,
        **more,
    }


def crate_purl(package):
    return f"pkg:cargo/{package['name']}@{package['version'].replace('+', '%2B')}"


def crate(package, checksums):
    more = {}
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        more["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package["repository"]:
        more["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return component(package["name"], package["version"], package["license"], crate_purl(package), **more)


def works(packages):
    """Works inside of crates, each with the purl of its crate."""
    for package in packages:
        for work in linked.WITHIN.get(package["name"], []):
            version = linked.version_within(package, work)
            yield component(work.name, version, work.licence, f"pkg:generic/{work.name}@{version}"), crate_purl(package)


def runtime(programs):
    """What the compiler links beside crates."""
    version = compiler_version()
    rust = component("rust-std", version, "(MIT OR Apache-2.0) AND Apache-2.0 WITH LLVM-exception", f"pkg:generic/rust-std@{version}")
    is_static = any(program.target == linked.STATIC for program in programs)
    return [rust, *([component("musl", MUSL, "MIT", f"pkg:generic/musl@{MUSL}")] if is_static else [])]


def data():
    date = next(line for line in (linked.ROOT / "data/pci/pci.ids").read_text().splitlines() if "Date:" in line).split()[2]
    return component("pci.ids", date, "BSD-3-Clause OR GPL-2.0-or-later", f"pkg:generic/pci.ids@{date}", kind="data")


def dependencies(packages, extra):
    """Which crate uses which, of those that are linked."""
    nodes = {node["id"]: node for node in linked.metadata()["resolve"]["nodes"]}
    purls = {package["id"]: crate_purl(package) for package in packages}
    edges = {}
    for package_id, purl in purls.items():
        normal = [one["pkg"] for one in nodes[package_id]["deps"] if any(kind["kind"] is None for kind in one["dep_kinds"])]
        edges[purl] = {purls[one] for one in normal if one in purls}
    for inner, outer in extra:
        edges[outer].add(inner)
        edges[inner] = set()
    return edges


def bill(name, version, programs, time, with_data):
    """The document, whose bytes are decided by the sources and the compiler."""
    packages = linked.crates(programs)
    checksums = linked.checksums()
    inner = list(works(packages))
    beside = [*runtime(programs), *([data()] if with_data else [])]
    components = [*(crate(package, checksums) for package in packages), *(one for one, _ in inner), *beside]
    root = f"pkg:generic/{name}@{version}"
    edges = dependencies(packages, [(one["bom-ref"], outer) for one, outer in inner])
    tops = {crate_purl(package) for package in packages if package["name"] in {program.package for program in programs}}
    edges |= {root: {*tops, *(one["bom-ref"] for one in beside)}, **{one["bom-ref"]: set() for one in beside}}
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.datetime.fromtimestamp(time, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "lifecycles": [{"phase": "build"}],
            "component": {"type": "application", "bom-ref": root, "name": name, "version": version, "purl": root},
            "properties": [{"name": "iotoll:target", "value": target} for target in sorted({program.target for program in programs})],
        },
        "components": sorted(components, key=lambda one: one["bom-ref"]),
        "dependencies": [{"ref": ref, "dependsOn": sorted(edges[ref])} for ref in sorted(edges)],
    }
    content = json.dumps(document, sort_keys=True)
    document = {"serialNumber": f"urn:uuid:{uuid.uuid5(NAMESPACE, content)}", **document}
    return (json.dumps(document, indent=1) + "\n").encode()
