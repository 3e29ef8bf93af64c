"""An installed Tenon, used from outside of the tree: C by pkg-config and by CMake, C++ by CMake."""
import re
import subprocess

import pytest
from native import HEADER, STRICT, functions_of, run
from serving import ROOT, VERSION

MODEL = ROOT / "models/tenon-tiny.gguf"
TOOLS = ROOT / "examples/c/tools.c"
EXPECTED = (ROOT / "examples/c/tools.txt").read_text()

C_PROJECT = """cmake_minimum_required(VERSION 3.25)
project(program LANGUAGES C)
find_package(tenon REQUIRED COMPONENTS shared)
add_executable(program tools.c)
target_link_libraries(program PRIVATE tenon::shared)
"""

# The C functions out of the static layers, beside what is C++.
CXX_PROJECT = """cmake_minimum_required(VERSION 3.25)
project(program LANGUAGES CXX)
find_package(tenon 0.1 REQUIRED)
add_executable(program main.cc)
target_link_libraries(program PRIVATE tenon::capi tenon::format)
"""
CXX_PROGRAM = """#include <tenon.h>
#include <tenon/format/registry.h>
#include <tenon/json/value.h>

#include <cstdio>

int main() {
  tenon_format* format = nullptr;
  if (tenon_format_find(tenon_text_of("hermes"), &format) != nullptr) return 1;
  tenon_string* info = nullptr;
  if (tenon_format_info(format, &info) != nullptr) return 2;
  const tenon_text text = tenon_string_text(info);
  const auto known = tenon::json::parse({text.data, text.size});
  if (!known || *known->find("name") != tenon::format::info(*tenon::format::find("qwen3")).name) return 3;
  tenon_string_free(info);
  tenon_format_free(format);
  std::puts(tenon_version());
}
"""


@pytest.mark.parametrize("language", [["-x", "c", "-std=c99"], ["-x", "c", "-std=c11"], ["-x", "c++", "-std=c++11"],
                                      ["-x", "c++", "-std=c++20"]], ids=lambda language: language[-1])
def test_the_header_stands_alone(language, tmp_path):
    run("cc", *STRICT, "-Wconversion", *language, "-fsyntax-only", HEADER, cwd=tmp_path)


def test_the_library_exports_what_the_header_declares_and_nothing_else(installed):
    lines = run("nm", "-D", "--defined-only", "--with-symbol-versions", installed.library).splitlines()
    exported = dict(line.split()[-1].split("@@") for line in lines if not line.split()[-1].startswith("TENON_"))
    assert set(exported) == functions_of(HEADER.read_text())
    assert set(exported.values()) == {"TENON_0.1", "TENON_0.2"}
    assert {name for name, version in exported.items() if version == "TENON_0.2"} == {"tenon_error_path", "tenon_error_line"}


def test_the_library_has_a_name_with_a_version(installed):
    assert "libtenon.so.0]" in run("readelf", "-d", installed.library)


def test_c_by_pkg_config(installed, tmp_path):
    program = tmp_path / "program"
    run("cc", "-std=c99", *STRICT, TOOLS, *installed.flags(), "-o", program, env=installed.env)
    assert run(program, MODEL, env=installed.env) == EXPECTED


def test_c_by_cmake(installed, tmp_path):
    built = installed.cmake_project(tmp_path / "project", C_PROJECT, [TOOLS])
    assert run(built / "program", MODEL) == EXPECTED, "CMake says itself where the library is"


def test_static_cxx_by_cmake(installed, tmp_path):
    (tmp_path / "main.cc").write_text(CXX_PROGRAM)
    built = installed.cmake_project(tmp_path / "project", CXX_PROJECT, [tmp_path / "main.cc"])
    assert run(built / "program") == VERSION + "\n"


def test_the_program_of_the_page(installed, tmp_path):
    page = (ROOT / "docs/capi.md").read_text()
    source, printed = (re.search(rf"```{kind}\n(.*?)```", page, re.DOTALL).group(1) for kind in ("c", "text"))
    (tmp_path / "page.c").write_text(source)
    run("cc", "-std=c99", *STRICT, "page.c", *installed.flags(), "-o", "page", cwd=tmp_path, env=installed.env)
    assert run(tmp_path / "page", env=installed.env) == printed


def test_a_version_that_is_not_there_is_not_found(installed, tmp_path):
    with pytest.raises(AssertionError, match=re.escape(VERSION)):
        installed.cmake_project(tmp_path / "project", C_PROJECT.replace("tenon REQUIRED", "tenon 1.0 REQUIRED"), [TOOLS])


def test_the_installed_command_runs(installed):
    assert run(installed.prefix / "bin/tenon", "--version").strip().endswith(VERSION)


def test_what_lacks_is_named(tmp_path):
    """All of it, before anything is compiled, and how to get it: what `pip install .` shows on a machine without it."""
    lacking = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("llama", "tomlplusplus", "ICU")]
    done = subprocess.run(["cmake", "-S", ROOT, "-B", tmp_path, *lacking], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    for word in ("libtomlplusplus-dev libicu-dev", "libllama, in", "scripts/setup.sh build"):
        assert word in re.sub(r"\s+", " ", done.stderr), done.stderr
