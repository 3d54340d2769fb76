//! Says where Cargo puts the shared library of exported units, which the program carries inside.
//!
//! The package depends on `daesy-fmu-library`, so that Cargo links that library, for the same machine and profile,
//! before it compiles the program (a dependency with a shared library among its kinds is waited for). It has no hash in
//! its name, because it belongs to the workspace. Where nothing is linked, as in `cargo check`, an empty file takes its
//! place: the program that would come of it could not export, and nobody runs it.

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // .../target/PROFILE/build/daesy-HASH/out
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR"));
    let profile = out.ancestors().nth(3).expect("OUT_DIR lies below the folder of the profile");
    let name = match std::env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("windows") => "daesy_fmu_library.dll",
        Ok("macos") => "libdaesy_fmu_library.dylib",
        _ => "libdaesy_fmu_library.so",
    };
    let library = profile.join("deps").join(name);
    if !library.exists() {
        std::fs::create_dir_all(profile.join("deps")).expect("the folder of the profile can be written");
        std::fs::write(&library, b"").expect("the folder of the profile can be written");
    }
    println!("cargo::rustc-env=DAESY_FMU_LIBRARY={}", library.display());
}
