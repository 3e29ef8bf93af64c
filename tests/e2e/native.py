"""An installed Tenon, and programs of other languages that use it."""
import os
import re
import shutil
import subprocess
import sys

import pytest
from serving import ROOT, TENON

BUILD = TENON.parent.parent
HEADER = ROOT / "src/tenon/capi/include/tenon.h"
STRICT = ["-Wall", "-Wextra", "-pedantic", "-Werror"]


def run(*command, **options):
    """What the command prints; fails with all of it where it fails."""
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=600, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}"
    return done.stdout


def functions_of(header):
    """What tenon.h declares."""
    return set(re.findall(r"\b(tenon_\w+)\(", re.sub(r"/\*.*?\*/|static inline [^}]*}|typedef [^;]*;", "", header,
                                                     flags=re.DOTALL)))


class Installed:
    """`cmake --install` of the build that the tests run, which is not built anew for it."""

    def __init__(self, prefix):
        self.prefix = prefix
        if not (BUILD / "CMakeCache.txt").exists():
            pytest.skip(f"{BUILD} is no tree that Tenon was built in")
        run("cmake", "--install", BUILD, "--prefix", prefix)
        self.library = prefix / "lib/libtenon.so"
        if "__asan_init" in run("nm", "-D", "--undefined-only", self.library):
            pytest.skip("libtenon.so is sanitised: the programs that link with it are not")
        # pkg-config and what runs find it, and nothing else is said of where it is.
        self.env = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig"), "LD_LIBRARY_PATH": str(prefix / "lib")}
        self.env.pop("LDFLAGS", None)

    def flags(self):
        return run("pkg-config", "--cflags", "--libs", "tenon", env=self.env).split()

    def cmake_project(self, folder, lists, sources, *options):
        """Builds a project outside of our tree."""
        folder.mkdir()
        (folder / "CMakeLists.txt").write_text(lists)
        for source in sources:
            shutil.copy(source, folder)
        run("cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={self.prefix};{site_packages()}", *options)
        run("cmake", "--build", folder / "build")
        return folder / "build"


def site_packages():
    """Where libllama is."""
    return next(path for path in sys.path if path.endswith("site-packages"))


def needs(program):
    """Its path; the test is skipped where it is not installed."""
    return shutil.which(program) or pytest.skip(f"{program} is not installed: what is written for it was NOT tested")
