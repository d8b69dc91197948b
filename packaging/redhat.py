"""RPM packages, by rpmbuild."""

import datetime
import pathlib
import shlex
import subprocess
import tempfile
import textwrap

import layout
from layout import Entry

DOCUMENTS = ("usr/share/doc/", "usr/share/man/")


def listed(path):
    """A file's line in a list of files."""
    kind = "%license " if path.startswith("usr/share/licenses/") else "%doc " if path.startswith(DOCUMENTS) else ""
    return f'{kind}"/{path}"'


def spec(name, entries, package, version, time, quick):
    """A spec file, which builds nothing: the files are those of the folder `staged`."""
    about = package[name]
    date = datetime.datetime.fromtimestamp(time, datetime.timezone.utc).strftime("%a %b %d %Y")
    own = sorted({str(pathlib.PurePosixPath(entry.path).parent) for entry in entries if f"/{name}" in entry.path or "lib/iotoll" in entry.path})
    own = [folder for folder in own if folder.startswith((f"usr/share/doc/{name}", f"usr/share/licenses/{name}", layout.LIBRARY))]
    requires = "" if name == "iotoll" else f"Requires: iotoll%{{?_isa}} = {version}-1\n"
    homepage = f"URL: {package['homepage']}\n" if package["homepage"] else ""
    return f"""%global debug_package %{{nil}}
%global __strip /bin/true
%global __brp_compress %{{nil}}
%global __os_install_post %{{nil}}
%global _build_id_links none
%global _binary_payload {"w1.gzdio" if quick else "w7.xzdio"}
%global use_source_date_epoch_as_buildtime 1
%global clamp_mtime_to_source_date_epoch 1
%global _buildhost iotoll

Name: {name}
Version: {version}
Release: 1
Summary: {about["summary"][:1].upper()}{about["summary"][1:]}
License: {about["licence"]}
{homepage}Packager: {package["maintainer"]}
{requires}
%description
{textwrap.fill(" ".join(about["description"].split()), 78)}

%install
mkdir -p %{{buildroot}}
cp -a %{{staged}}/. %{{buildroot}}/

%files
%defattr(-,root,root)
{chr(10).join([*(f'%dir "/{folder}"' for folder in own), *(listed(entry.path) for entry in entries)])}

%changelog
* {date} {package["maintainer"]} - {version}-1
- Release {version}; CHANGELOG.md says what changed.
"""


def build(name, entries, package, version, time, out, quick):
    """Writes a package into `out` and returns its path. A quick one is larger."""
    folder = f"usr/share/doc/{name}"
    entries = layout.ordered([*entries, Entry(f"{folder}/CHANGELOG.md", (layout.ROOT / "CHANGELOG.md").read_bytes())])
    with tempfile.TemporaryDirectory() as temporary:
        top = pathlib.Path(temporary)
        layout.write(entries, top / "root", time)
        (top / "package.spec").write_text(spec(name, entries, package, version, time, quick))
        # The database of a system without one is asked for nothing.
        command = ["rpmbuild", "-bb", "--quiet", "--target", "x86_64", "--define", f"staged {top}/root"]
        command += ["--define", f"_topdir {top}", "--define", f"_dbpath {top}/db", "--define", f"_rpmdir {top}/out", top / "package.spec"]
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": temporary, "SOURCE_DATE_EPOCH": str(time)}
        made = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
        if made.returncode != 0:
            raise SystemExit(f"{shlex.join(map(str, command))}:\n{made.stdout}")
        (package_file,) = (top / "out").rglob("*.rpm")
        path = out / package_file.name
        path.write_bytes(package_file.read_bytes())
    return path
