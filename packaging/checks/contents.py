"""What packages hold: held against Debian's and Red Hat's own checkers, CycloneDX's schema, and what the programs themselves name."""

import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

import debian
from programs import OLDEST_GLIBC, install_tool

VALIDATOR = "cyclonedx-python-lib[json-validation]==11.12.0"
# What both packages of the program must hold, below /usr.
PROGRAM = [
    "bin/iotoll",
    "share/man/man1/iotoll.1.gz",
    "share/man/man1/iotoll-inspect.1.gz",
    "share/bash-completion/completions/iotoll",
    "share/fish/vendor_completions.d/iotoll.fish",
    "share/doc/iotoll/README.md",
    "share/doc/iotoll/docs/guide/inspect.md",
    "share/doc/iotoll/contrib/sos/iotoll.py",
    "share/doc/iotoll/iotoll.cdx.json",
]
LICENCES = ["LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY.md"]
LAB = ["lib/iotoll/liblab_plugin.so", "lib/iotoll/lab-guest"]


def printed(*words, **options):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, **options).stdout


def unpack_deb(path, folder):
    subprocess.run(["dpkg-deb", "-x", path, folder], check=True)


def unpack_rpm(path, folder):
    archive = printed("rpm2cpio", path)
    subprocess.run(["cpio", "-idm", "--quiet", "--no-absolute-filenames"], input=archive, cwd=folder, check=True)


def files_below(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def missing(path, files, wanted):
    return [f"{path.name}: no /usr/{name}" for name in wanted if f"usr/{name}" not in files]


def check_files(out):
    """That packages hold what they should, and both kinds the same programs."""
    wrong = []
    for name, wanted in (("iotoll", PROGRAM), ("iotoll-lab", LAB)):
        sums = []
        for pattern, unpack, licences in (
            (f"{name}_*.deb", unpack_deb, "share/doc"),
            (f"{name}-[0-9]*.rpm", unpack_rpm, "share/licenses"),
        ):
            (path,) = out.glob(pattern)
            with tempfile.TemporaryDirectory() as temporary:
                folder = pathlib.Path(temporary)
                unpack(path, folder)
                files = files_below(folder)
                wrong += missing(path, files, [*wanted, *(f"{licences}/{name}/{one}" for one in LICENCES)])
                programs = [folder / file for file in sorted(files) if (folder / file).read_bytes()[:4] == b"\x7fELF"]
                sums.append([(one.name, hashlib.sha256(one.read_bytes()).hexdigest()) for one in programs])
        if sums[0] != sums[1]:
            wrong.append(f"{name}: the programs of .deb and .rpm differ: {sums}")
    return wrong


def check_symbols(out):
    """That lab-guest has its symbol table, in which its functions are looked up."""
    (path,) = out.glob("iotoll-lab_*.deb")
    with tempfile.TemporaryDirectory() as folder:
        unpack_deb(path, folder)
        sections = printed("readelf", "--section-headers", f"{folder}/usr/lib/iotoll/lab-guest", text=True)
    return [] if ".symtab" in sections else [f"{path.name}: lab-guest has no symbol table"]


def check_lintian(out):
    """No error, warning or unused override of lintian's."""
    if not shutil.which("lintian"):
        return None
    command = ["lintian", "--fail-on", "error,warning", "--tag-display-limit", "0", *sorted(out.glob("*.deb"))]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = [line for line in done.stdout.splitlines() if line.startswith(("E:", "W:")) or "unused-override" in line or "mismatched-override" in line]
    return said + ([done.stdout] if done.returncode != 0 and not said else [])


def check_rpmlint(out):
    """No error or warning of rpmlint's but those that packaging/rpmlint.toml names."""
    if not shutil.which("rpmlint"):
        return None
    config = pathlib.Path(__file__).parent.parent / "rpmlint.toml"
    command = ["rpmlint", "--config", config, *sorted(out.glob("*.rpm"))]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = [line for line in done.stdout.splitlines() if re.search(r": [EW]: ", line)]
    return said + ([done.stdout] if done.returncode != 0 and not said else [])


def check_bills(out, tools):
    """That bills of materials are CycloneDX, whole, and name all crates of which a program has traces."""
    sys.path.insert(0, str(install_tool(tools, VALIDATOR)))
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    wrong = []
    for path in sorted(out.glob("*.cdx.json")):
        text = path.read_text()
        fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
        bill = json.loads(text)
        references = {bill["metadata"]["component"]["bom-ref"], *(one["bom-ref"] for one in bill["components"])}
        edges = [one for edge in bill["dependencies"] for one in (edge["ref"], *edge["dependsOn"])]
        wrong += [f"{path.name}: {fault}"] if fault else []
        wrong += [f"{path.name}: {edge} is no component" for edge in edges if edge not in references]
        wrong += [f"{path.name}: {one} has no licence" for one in bill["components"] if not one.get("licenses")]
    return wrong


def traces(program):
    """Crates of which a program names source files, in messages of panics: the linker left them, whatever a list says."""
    found = re.findall(rb"registry/src/[^/\s]+/([\w.+-]+?)-(\d+\.\d+\.\d+[\w.+-]*)/", program)
    return {(name.decode(), version.decode()) for name, version in found}


def static_program(archive):
    """The static program of an archive, and its bill."""
    with tarfile.open(archive) as members:
        top = archive.name.removesuffix(".tar.gz")
        return tuple(members.extractfile(f"{top}/{name}").read() for name in ("iotoll", "iotoll.cdx.json"))


def python_library(wheel):
    """The library of a wheel, and its bill."""
    with zipfile.ZipFile(wheel) as members:
        (library,) = (name for name in members.namelist() if name.endswith(".so"))
        (bill,) = (name for name in members.namelist() if name.endswith(".cdx.json"))
        return members.read(library), members.read(bill)


def check_traces(out):
    """That the static program and the wheel name no crate that their bills do not."""
    wrong = []
    for pattern, read in (("iotoll-*-linux.tar.gz", static_program), ("*.whl", python_library)):
        (path,) = out.glob(pattern)
        program, bill = read(path)
        listed = {(one["name"], one["version"]) for one in json.loads(bill)["components"]}
        named = traces(program)
        print(f"  {path.name} names {len(named)} of {len(listed)} components")
        wrong += [f"{path.name}: {name} {version} is linked and not in its bill" for name, version in sorted(named - listed)]
    return wrong


def check_wheel(out):
    """That the wheel has the terms of all that is in it."""
    (path,) = out.glob("*.whl")
    with zipfile.ZipFile(path) as members:
        names = {pathlib.PurePosixPath(name).name for name in members.namelist() if ".dist-info/licenses/" in name}
    return [f"{path.name}: no {name} among its licences" for name in LICENCES if name not in names]


def check_glibc(out):
    """That the package's program asks for no newer glibc than RHEL 8 has."""
    (path,) = out.glob("iotoll_*.deb")
    with tempfile.TemporaryDirectory() as folder:
        unpack_deb(path, folder)
        asked = debian.newest_glibc([f"{folder}/usr/bin/iotoll"])
    oldest = tuple(map(int, OLDEST_GLIBC.split(".")))
    return [f"iotoll needs glibc {asked}; expected at most {OLDEST_GLIBC}"] if asked > oldest else []


def check_sums(out):
    listed = dict(reversed(line.split("  ")) for line in (out / "SHA256SUMS").read_text().splitlines())
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in out.iterdir() if path.name != "SHA256SUMS"}
    return [] if listed == found else [f"SHA256SUMS does not fit: {listed} {found}"]
