"""What is linked into our programs: crates, and works inside of crates. THIRD-PARTY.md and the SBOMs are made of this one list."""

import dataclasses
import json
import pathlib
import re
import subprocess
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
STATIC = "x86_64-unknown-linux-musl"
GLIBC = "x86_64-unknown-linux-gnu"


@dataclasses.dataclass(frozen=True)
class Work:
    """Somebody's work inside of a crate: its name for people and for a purl, its licence, the file with its terms if it has one, the header
    with its version, and the name of the version there, or what the names of its three numbers begin with."""

    title: str
    name: str
    licence: str
    terms: str | None
    header: str
    stem: str


WITHIN = {
    "liblzma-sys": [
        Work("XZ Utils (liblzma)", "xz", "0BSD", "xz/COPYING.0BSD", "xz/src/liblzma/api/lzma/version.h", "LZMA_VERSION_"),
    ],
    "libmimalloc-sys": [
        Work("mimalloc", "mimalloc", "MIT", None, "c_src/mimalloc/v3/include/mimalloc.h", "MI_MALLOC_VERSION"),
    ],
    "zstd-sys": [
        Work("Zstandard", "zstd", "BSD-3-Clause", "zstd/LICENSE", "zstd/lib/zstd.h", "ZSTD_VERSION_"),
    ],
}


@dataclasses.dataclass(frozen=True)
class Program:
    """A program, a library or several that are linked alike: Cargo's package, its features and the target."""

    package: str
    target: str
    features: tuple[str, ...] = ()


FEATURES = ("sweep", "fleet")
IOTOLL_STATIC = Program("iotoll", STATIC, FEATURES)
IOTOLL = Program("iotoll", GLIBC, FEATURES)
LAB_PLUGIN = Program("lab-plugin", GLIBC)
LAB_GUEST = Program("lab-guest", GLIBC)
PYTHON_PACKAGE = Program("iotoll-python", GLIBC)


def cargo(*words):
    return subprocess.run(["cargo", *words], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def metadata():
    # Without features it would lack the crates of optional ones.
    return json.loads(cargo("metadata", "--locked", "--all-features", "--format-version", "1"))


def names(program):
    """Names and versions of the crates in a program: neither what only its build or its tests need, nor macros, which run in the compiler."""
    words = ["-p", program.package, "--target", program.target, "-e", "normal,no-proc-macro", "--prefix", "none", "--locked", "-f", "{p}"]
    if program.features:
        words += ["--features", ",".join(program.features)]
    lines = (line.split() for line in cargo("tree", *words).splitlines() if line)
    return {(name, version.removeprefix("v")) for name, version, *_ in lines}


def crates(programs):
    """Cargo's records of all crates in the programs, sorted by name and version."""
    wanted = set().union(*map(names, programs))
    found = [package for package in metadata()["packages"] if (package["name"], package["version"]) in wanted]
    assert len(found) == len(wanted), wanted - {(package["name"], package["version"]) for package in found}
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def is_ours(package):
    """Whether a crate is of this repository."""
    return package["source"] is None


def folder(package):
    return pathlib.Path(package["manifest_path"]).parent


def checksums():
    """SHA-256 of each crate's archive in the registry, by name and version."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    return {(one["name"], one["version"]): one["checksum"] for one in lock["package"] if "checksum" in one}


def version_within(package, work):
    """The version of a work inside of a crate."""
    header = folder(package) / work.header
    text = header.read_text()
    whole = re.search(rf"define\s+{work.stem}\s+(\d+)(\d\d)(\d\d)\b", text)
    if whole:
        return ".".join(str(int(number)) for number in whole.groups())
    numbers = [re.search(rf"define\s+{work.stem}{part}\s+(\d+)", text) for part in ("MAJOR", "MINOR", "(?:PATCH|RELEASE)")]
    if not all(numbers):
        raise SystemExit(f"{header}: no {work.stem}MAJOR, MINOR and PATCH or RELEASE; expected the version of {work.title}")
    return ".".join(number.group(1) for number in numbers)
