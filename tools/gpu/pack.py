# SPDX-License-Identifier: Apache-2.0
"""Fills a folder with the Debian packages that the build needs and a bare GPU host may lack.

Works on Debian and Ubuntu, as any user: apt keeps its lists in a folder of our own, and packages are
unpacked, not installed. The system must not be newer than the GPU host's, or the libraries want a C
library that is not there; the C library itself, and the compiler's, are the host's.
"""
import os
import shutil
import stat
import subprocess
import tempfile

import deps as deps_of

ROOTS = ["libcmocka-dev", "libjansson-dev", "libmicrohttpd-dev", "libpcre2-dev", "libutf8proc-dev",
         "libxxhash-dev", "liburing-dev", "libjemalloc-dev", "pkgconf"]
HOSTS = {"libc6", "libgcc-s1", "libstdc++6", "libcrypt1", "libc-bin"}
BYTES_MAX = 60 << 20
USELESS = ["usr/share/doc", "usr/share/man", "usr/share/lintian", "usr/share/locale", "usr/share/info",
           "usr/share/bug", "etc"]

WRAPPER = """#!/bin/sh
# The pkg-config of this folder: it runs with the libraries of this folder.
here=$(cd "$(dirname "$0")" && pwd)
for lib in "$here"/usr/lib/*-linux-gnu; do
	LD_LIBRARY_PATH=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
done
export LD_LIBRARY_PATH
exec "$here/usr/bin/pkgconf" "$@"
"""


class PackError(Exception):
    pass


def command(*argv, cwd=None):
    try:
        run = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)
    except OSError as e:
        raise PackError(f"{argv[0]}: {e.strerror}; packing needs Debian or Ubuntu") from e
    if run.returncode:
        raise PackError(f"{' '.join(argv)}: {run.stderr.strip()}")
    return run.stdout


class Apt:
    """apt with lists of its own."""

    def __init__(self, folder):
        self.options = ["-o", f"Dir::State::Lists={folder}/lists", "-o", f"Dir::Cache={folder}/cache",
                        "-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User="]
        for name in ("lists/partial", "cache/archives/partial"):
            os.makedirs(os.path.join(folder, name))
        command("apt-get", *self.options, "update")

    def needs(self, package):
        """The packages that it depends on; of alternatives the first."""
        needs, skip = [], False
        for line in command("apt-cache", *self.options, "depends", "--no-recommends",
                            "--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces",
                            "--no-enhances", package).splitlines()[1:]:
            word = line.strip()
            kind, _, name = word.lstrip("|").partition(": ")
            if kind in ("Depends", "PreDepends") and not skip and not name.startswith("<"):
                needs.append(name)
            skip = word.startswith("|")
        return needs

    def closure(self, roots):
        """Libraries to run with, of all roots; and the headers of the roots alone."""
        found, queue = [], list(roots)
        while queue:
            package = queue.pop(0).split(":")[0]
            if package in found or package in HOSTS:
                continue
            if package not in roots and (package.endswith("-dev") or package.endswith("-base")):
                continue
            found.append(package)
            queue += self.needs(package)
        return found

    def download(self, packages, folder):
        command("apt-get", *self.options, "download", *packages, cwd=folder)


def size_of(folder):
    return sum(os.lstat(os.path.join(where, name)).st_size
               for where, _, names in os.walk(folder) for name in names)


def clean(folder):
    for name in USELESS:
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    for where, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".a"):
                os.remove(os.path.join(where, name))


def forget_private(folder):
    """What a static library would need: its pkg-config files are not there, and we link none."""
    for libs in deps_of.library_dirs(folder):
        for name in os.listdir(os.path.join(libs, "pkgconfig")):
            path = os.path.join(libs, "pkgconfig", name)
            with open(path, encoding="utf-8") as f:
                lines = [line for line in f if not line.startswith("Requires.private")]
            with open(path, "w", encoding="utf-8") as f:
                f.writelines(lines)


def write_wrapper(folder):
    path = os.path.join(folder, "pkg-config")
    with open(path, "w", encoding="ascii") as f:
        f.write(WRAPPER)
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def fill(folder, scratch, say):
    say("reading the package lists")
    apt = Apt(scratch)
    packages = apt.closure(ROOTS)
    debs = os.path.join(scratch, "debs")
    os.makedirs(debs)
    say(f"downloading {len(packages)} packages: {' '.join(packages)}")
    apt.download(packages, debs)
    files = sorted(os.listdir(debs))
    for name in files:
        command("dpkg-deb", "-x", os.path.join(debs, name), folder)
    clean(folder)
    forget_private(folder)
    write_wrapper(folder)
    if size_of(folder) > BYTES_MAX:
        raise PackError(f"{size_of(folder)} bytes, more than {BYTES_MAX}")
    with open(os.path.join(folder, deps_of.MARK), "w", encoding="ascii") as f:
        f.write("\n".join(files) + "\n")


def pack(folder, say):
    """The exit status. The folder must be new, empty, or one that was packed before."""
    if os.path.isdir(folder) and os.listdir(folder) and not deps_of.is_packed(folder):
        say(f"error: {folder} is not empty, and was not packed by this command")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    with tempfile.TemporaryDirectory(prefix="kvd-pack-") as scratch:
        try:
            fill(folder, scratch, say)
        except PackError as e:
            shutil.rmtree(folder, ignore_errors=True)
            say(f"error: {e}")
            return 1
    say(f"packed into {folder}: {size_of(folder) / (1 << 20):.1f} MiB; on the GPU host: "
        f"tools/gpu-check --deps {folder}")
    return 0
