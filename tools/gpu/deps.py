# SPDX-License-Identifier: Apache-2.0
"""The environment in which a build finds the libraries of a folder that pack.py filled."""
import os

MARK = "packed"  # a file in the folder: what is in it


def library_dirs(folder):
    base = os.path.join(folder, "usr", "lib")
    triplets = [name for name in sorted(os.listdir(base)) if name.endswith("-linux-gnu")]
    return [os.path.join(base, name) for name in triplets]


def is_packed(folder):
    return os.path.isfile(os.path.join(folder, MARK))


def environment(folder):
    """os.environ, and, if the folder is packed, what makes compilers and linkers look there.

    Only the folder's pkg-config files are seen: those of two systems do not mix. Programs find the
    folder's libraries by rpath (the old kind, which holds for the libraries of libraries too), so
    that no other program of the host meets them.
    """
    env = dict(os.environ)
    if not is_packed(folder):
        return env
    libs = library_dirs(folder)

    def prepend(name, separator, *words):
        env[name] = separator.join([*words, *([env[name]] if env.get(name) else [])])

    env["PKG_CONFIG"] = os.path.join(folder, "pkg-config")
    env["PKG_CONFIG_SYSROOT_DIR"] = folder
    env["PKG_CONFIG_LIBDIR"] = ":".join([os.path.join(d, "pkgconfig") for d in libs]
                                        + [os.path.join(folder, "usr", "share", "pkgconfig")])
    env.pop("PKG_CONFIG_PATH", None)
    prepend("CPATH", ":", os.path.join(folder, "usr", "include"))
    prepend("LIBRARY_PATH", ":", *libs)
    prepend("LDFLAGS", " ", "-Wl,--disable-new-dtags",
            *(f"-Wl,-rpath,{d} -Wl,-rpath-link,{d}" for d in libs))
    return env
