"""Debian's packages, by dpkg-deb."""

import datetime
import email.utils
import hashlib
import pathlib
import re
import subprocess
import tempfile
import textwrap

import layout
from archive import packed
from layout import Entry

# What lintian says of our packages that is meant, each with the reason.
OVERRIDES = {
    "iotoll": [("initial-upload-closes-no-bugs", "it was not uploaded to Debian")],
    "iotoll-lab": [
        ("initial-upload-closes-no-bugs", "it was not uploaded to Debian"),
        ("unstripped-binary-or-object", "functions of lab-guest are looked up in its symbol table"),
        ("hardening-no-pie", "marks of lab-guest are at fixed addresses"),
    ],
}


def copyright_text(about):
    mit = (layout.ROOT / "LICENSE-MIT").read_text()
    owner = next(line for line in mit.splitlines() if line.startswith("Copyright"))
    indented = "\n".join(f" {line}" if line else " ." for line in mit.split(owner)[1].strip().splitlines())
    owner_name = owner.removeprefix("Copyright (c)").strip()
    plugin = f"Files: usr/lib/iotoll/liblab_plugin*\nCopyright: {owner_name}\nLicense: GPL-2.0-or-later\n On Debian its text is in /usr/share/common-licenses/GPL-2.\n\n"
    return f"""Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: iotoll
Comment: Works of others that are linked into the program, and their terms, are listed in THIRD-PARTY.md beside this file.

Files: *
Copyright: {owner_name}
License: MIT or Apache-2.0

{plugin if "GPL" in about["licence"] else ""}License: MIT
{indented}

License: Apache-2.0
 On Debian its text is in /usr/share/common-licenses/Apache-2.0.
"""


def changelog(name, version, maintainer, time):
    date = email.utils.format_datetime(datetime.datetime.fromtimestamp(time, datetime.timezone.utc))
    return f"{name} ({version}) unstable; urgency=medium\n\n  * Release {version.split('-')[0]}; CHANGELOG.md says what changed.\n\n -- {maintainer}  {date}\n"


def wrapped(text):
    """The further lines of a description, short enough for a terminal."""
    return "\n".join(f" {line}" for line in textwrap.wrap(" ".join(text.split()), 78))


# Debian's package of each library that our programs may ask for. Which release of glibc is needed is read from the versions of symbols:
# dpkg-shlibdeps answers with the building host's, for libraries that are part of libc since then.
GLIBC_LIBRARIES = {"ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1"}
OTHER_LIBRARIES = {"libgcc_s.so.1": "libgcc-s1"}


def newest_glibc(programs):
    """The newest version of glibc whose symbols programs ask for, as numbers; None for static ones."""
    said = [subprocess.run(["readelf", "--version-info", one], check=True, stdout=subprocess.PIPE, text=True).stdout for one in programs]
    asked = [tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_(\d[\d.]*)", "".join(said))]
    return max(asked, default=None)


def needed_packages(programs):
    """What programs need of shared libraries."""
    said = [subprocess.run(["readelf", "--dynamic", one], check=True, stdout=subprocess.PIPE, text=True).stdout for one in programs]
    libraries = set(re.findall(r"\(NEEDED\).*\[(.*)\]", "".join(said)))
    others = libraries - GLIBC_LIBRARIES
    if others - OTHER_LIBRARIES.keys():
        raise SystemExit(f"{programs}: need {others - OTHER_LIBRARIES.keys()}; expected libraries whose Debian package is known")
    newest = newest_glibc(programs)
    glibc = [f"libc6 (>= {'.'.join(map(str, newest))})"] if newest else []
    return glibc + [OTHER_LIBRARIES[one] for one in sorted(others)]


def control(name, about, version, maintainer, homepage, depends, size):
    fields = {
        "Package": name,
        "Version": version,
        "Architecture": "amd64",
        "Maintainer": maintainer,
        "Installed-Size": str(size),
        "Depends": depends,
        "Recommends": ", ".join(about["recommends"]),
        "Section": "admin",
        "Priority": "optional",
        "Homepage": homepage,
        "Description": f"{about['summary']}\n{wrapped(about['description'])}",
    }
    return "".join(f"{field}: {value}\n" for field, value in fields.items() if value)


def build(name, entries, package, version, time, out, quick):
    """Writes a package into `out` and returns its path. A quick one is larger."""
    about, maintainer = package[name], package["maintainer"]
    folder = f"usr/share/doc/{name}"
    version = f"{version}-1"
    overrides = "".join(f"# {reason}\n{name}: {tag}\n" for tag, reason in OVERRIDES[name])
    entries = [
        *entries,
        Entry(f"{folder}/copyright", copyright_text(about).encode()),
        Entry(f"{folder}/changelog.gz", packed((layout.ROOT / "CHANGELOG.md").read_bytes())),
        Entry(f"{folder}/changelog.Debian.gz", packed(changelog(name, version, maintainer, time).encode())),
        Entry(f"usr/share/lintian/overrides/{name}", overrides.encode()),
    ]
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary) / "root"
        layout.write(entries, root, time)
        programs = [root / entry.path for entry in entries if entry.data.startswith(b"\x7fELF")]
        depends = needed_packages(programs) + ([f"iotoll (= {version})"] if name != "iotoll" else [])
        size = sum(-(-len(entry.data) // 1024) for entry in entries)
        text = control(name, about, version, maintainer, package["homepage"], ", ".join(depends), size)
        sums = "".join(f"{hashlib.md5(entry.data).hexdigest()}  {entry.path}\n" for entry in layout.ordered(entries))
        layout.write([Entry("control", text.encode()), Entry("md5sums", sums.encode())], root / "DEBIAN", time)
        path = out / f"{name}_{version}_amd64.deb"
        compression = ["-Zgzip", "-z1"] if quick else ["-Zxz"]
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SOURCE_DATE_EPOCH": str(time)}
        command = ["dpkg-deb", "--root-owner-group", *compression, "--build", root, path]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return path
