"""examples/c, examples/go and examples/rust: one program, three times."""
import shutil

import pytest
from native import STRICT, needs, run
from serving import ROOT

MODEL = ROOT / "models/tenon-tiny.gguf"
EXPECTED = (ROOT / "examples/c/tools.txt").read_text()


def in_c(installed, folder):
    run("cc", "-std=c99", *STRICT, ROOT / "examples/c/tools.c", *installed.flags(), "-o", folder / "tools", env=installed.env)
    return folder / "tools"


def in_go(installed, folder):
    go = needs("go")
    # Nothing is fetched: the example has no dependencies, and the toolchain is the one that is there. Its cache does not look at
    # what pkg-config says, so that a second installation elsewhere takes the place of the first one only where a flag differs.
    env = {**installed.env, "GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local",
           "CGO_LDFLAGS": f"-L{installed.library.parent}"}
    run(go, "vet", ".", cwd=ROOT / "examples/go", env=env)
    run(go, "build", "-o", folder / "tools", ".", cwd=ROOT / "examples/go", env=env)
    return folder / "tools"


def in_rust(installed, folder):
    cargo = needs("cargo")
    shutil.copytree(ROOT / "examples/rust", folder / "rust")  # warnings count, and targets stay out of the tree
    run(cargo, "build", "--quiet", "--offline", "--locked", cwd=folder / "rust",
        env={**installed.env, "RUSTFLAGS": "-D warnings", "CARGO_TARGET_DIR": str(folder / "target")})
    return folder / "target/debug/tools"


@pytest.mark.parametrize("build", [in_c, in_go, in_rust], ids=["c", "go", "rust"])
def test_the_example_calls_a_tool(build, installed, tmp_path):
    program = build(installed, tmp_path)
    assert run(program, MODEL, env=installed.env) == EXPECTED
