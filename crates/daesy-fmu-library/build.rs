//! Leaves debugging symbols out of the shared library, which travels inside every exported unit.

fn main() {
    let os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if os == "linux" {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--strip-all");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
