"""Builds the programs of a release: `iotoll`, static and for glibc, and the lab's two."""

import dataclasses
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

from linked import IOTOLL, IOTOLL_STATIC, LAB_GUEST, LAB_PLUGIN, PYTHON_PACKAGE, ROOT, STATIC

# The oldest glibc that packages run with: that of RHEL 8.
OLDEST_GLIBC = "2.28"
# That of the wheel, which Python calls manylinux2014; older ones Rust does not support.
OLDEST_GLIBC_OF_PYTHON = "2.17"
# Versions of QEMU's plugin interface; CONTRIBUTING.md says which QEMU takes which. The first is the plain file's.
PLUGIN_INTERFACES = (1, 2, 3, 7)
ZIG = "0.17.1"


@dataclasses.dataclass(frozen=True)
class Built:
    """Files of the programs. `static` is None where only packages are made."""

    static: pathlib.Path | None
    iotoll: pathlib.Path
    plugins: dict[str, pathlib.Path]
    guest: pathlib.Path


def commit_time():
    """The last commit's time, which all files of a release have, in seconds since 1970. Outside of Git SOURCE_DATE_EPOCH says it."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    log = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if log.returncode != 0:
        sys.exit(f"{ROOT}: no Git repository; expected the time of the sources in SOURCE_DATE_EPOCH")
    return int(log.stdout)


def install_tool(folder, requirement):
    """Installs a package of PyPI into a folder of its own, once, and returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / requirement
    if not place.is_dir():
        part = place.with_name(place.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--root-user-action=ignore", "--no-warn-conflicts"]
        command += ["--target", part, requirement]
        subprocess.run(command, check=True)
        part.rename(place)
    return place


class Toolchain:
    """Cargo with Zig as compiler of C and as linker: its C libraries are the same on every host."""

    def __init__(self, target_folder):
        self.target_folder = target_folder
        self.tools = target_folder / "tools"
        self.zig = install_tool(self.tools, f"ziglang=={ZIG}") / "ziglang" / "zig"

    def wrapper(self, name, arguments, dropped=()):
        """A program that calls Zig: build scripts and rustc add arguments of GCC's that Zig does not know."""
        path = self.tools / name
        patterns = "|".join(["--target=*", *dropped])
        path.write_text(
            "#!/bin/sh\n"
            f"for word; do shift; case $word in {patterns}) ;; *) set -- \"$@\" \"$word\" ;; esac; done\n"
            f"exec {shlex.join([str(self.zig), *arguments])} \"$@\"\n"
        )
        path.chmod(0o755)
        return str(path)

    def musl_libraries(self):
        """A folder with the library that crates name and musl has within libc."""
        folder = self.tools / "musl"
        folder.mkdir(exist_ok=True)
        (folder / "libdl.a").write_bytes(b"!<arch>\n")
        return folder

    def environment(self, program):
        """Variables with which the same sources give the same bytes in every folder."""
        target = program.target
        suffix = target.replace("-", "_")
        oldest_glibc = OLDEST_GLIBC_OF_PYTHON if program == PYTHON_PACKAGE else OLDEST_GLIBC
        c_target = "x86_64-linux-musl" if target == STATIC else f"x86_64-linux-gnu.{oldest_glibc}"
        cargo_home = os.environ.get("CARGO_HOME", str(pathlib.Path.home() / ".cargo"))
        # The last that fits counts.
        places = [(str(ROOT), "/iotoll"), (cargo_home, "/cargo"), (str(self.target_folder), "/target")]
        flags = [f"--remap-path-prefix={place}={name}" for place, name in places]
        compiler = self.wrapper(f"cc-{c_target}", ["cc", "-target", c_target])
        cache = str(self.target_folder / "zig-cache")
        variables = {
            f"CC_{suffix}": compiler,
            f"AR_{suffix}": self.wrapper("ar", ["ar"]),
            f"CFLAGS_{suffix}": " ".join(f"-ffile-prefix-map={place}={name}" for place, name in places),
            # Symbols are of no use without a debugger, and a fifth of the program; but functions of lab-guest are looked up in its symbol table.
            "CARGO_PROFILE_DIST_STRIP": "debuginfo" if program == LAB_GUEST else "symbols",
            "CARGO_TARGET_DIR": str(self.target_folder),
            "CARGO_INCREMENTAL": "0",
            "SOURCE_DATE_EPOCH": str(commit_time()),
            "ZIG_GLOBAL_CACHE_DIR": cache,
            "ZIG_LOCAL_CACHE_DIR": cache,
        }
        linker = f"CARGO_TARGET_{suffix.upper()}_LINKER"
        if target == STATIC:
            # Rust brings musl and all else that it takes; Zig would link a second one.
            variables[linker] = "rust-lld"
            flags.append(f"-Clink-arg=-L{self.musl_libraries()}")
        elif program != LAB_GUEST:
            # Zig can't put the marks of lab-guest at their address; it runs with the build host's glibc and newer.
            variables[linker] = compiler
        return {**os.environ, **variables, "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags)}

    def build(self, program, cargo_features=()):
        """Builds a program with the profile `dist` and returns the folder that it is in."""
        features = [*program.features, *cargo_features]
        command = ["cargo", "build", "--profile", "dist", "--locked", "--target", program.target, "-p", program.package]
        command += ["--features", ",".join(features)] if features else []
        print(f"$ {shlex.join(command)}", file=sys.stderr, flush=True)
        subprocess.run(command, cwd=ROOT, check=True, env=self.environment(program))
        return self.target_folder / program.target / "dist"


def build_iotoll(toolchain, program):
    return toolchain.build(program) / "iotoll"


def build_lab(toolchain, keep):
    """The plugins, one for each version of QEMU's interface, copied into `keep` since they have one name; and the guest's program."""
    keep.mkdir(parents=True, exist_ok=True)
    plugins = {}
    for interface in PLUGIN_INTERFACES:
        features = () if interface == PLUGIN_INTERFACES[0] else (f"api-{interface}",)
        name = "liblab_plugin.so" if not features else f"liblab_plugin-{features[0]}.so"
        made = toolchain.build(LAB_PLUGIN, features) / "liblab_plugin.so"
        plugins[name] = keep / name
        shutil.copy2(made, plugins[name])
    return plugins, toolchain.build(LAB_GUEST) / "lab-guest"


def build_all(target_folder):
    """Builds all programs of a release with the profile `dist`."""
    toolchain = Toolchain(target_folder)
    static = build_iotoll(toolchain, IOTOLL_STATIC)
    iotoll = build_iotoll(toolchain, IOTOLL)
    plugins, guest = build_lab(toolchain, target_folder / "plugins")
    return Built(static, iotoll, plugins, guest)


def stripped(path, keep, what="--strip-all"):
    """A copy of a program without symbols, or without debugging information alone."""
    keep.mkdir(parents=True, exist_ok=True)
    copy = keep / path.name
    subprocess.run(["strip", what, "-o", copy, path], check=True)
    return copy


def of_folder(folder, keep):
    """Programs that Cargo has built in a folder such as `target/debug`: to see how packages come out, without minutes of building."""
    plugins = {"liblab_plugin.so": stripped(folder / "liblab_plugin.so", keep)}
    return Built(None, stripped(folder / "iotoll", keep), plugins, stripped(folder / "lab-guest", keep, "--strip-debug"))
