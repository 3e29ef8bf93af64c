// Where libtenon is, as pkg-config says it.
use std::process::Command;

fn main() {
    let output = Command::new("pkg-config").args(["--variable=libdir", "tenon"]).output().expect("pkg-config");
    assert!(output.status.success(), "tenon.pc is not in PKG_CONFIG_PATH");
    let folder = String::from_utf8(output.stdout).expect("a path");
    println!("cargo:rustc-link-search=native={}", folder.trim());
    println!("cargo:rustc-link-lib=dylib=tenon");
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.trim());
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
}
