//! Builds the BPF object and its skeleton, compiles the pure policy headers natively, and makes the
//! Rust struct of the counters from the one list in `src/bpf/intf.h`.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo:rerun-if-changed=src/bpf");

    let mut bpf = scx_cargo::BpfBuilder::new()?;
    if env::var_os("CARGO_FEATURE_FAULTS").is_some() {
        bpf.add_cflag("-DVRQ_FAULTS");
    }
    bpf.add_include_path("src/bpf").enable_skel("src/bpf/main.bpf.c", "bpf").build()?;
    if env::var_os("CARGO_FEATURE_LIVE").is_some() {
        build_parity(&out)?;
    }

    cc::Build::new().file("src/bpf/policy_native.c").flag("-std=gnu11").warnings(true).compile("vrq_policy");
    bindgen::Builder::default()
        .header("src/bpf/policy_native.c")
        .allowlist_item("(vrq|VRQ)_.*")
        .prepend_enum_name(false)
        .generate()?
        .write_to_file(out.join("policy_bindings.rs"))?;

    fs::write(out.join("counters.rs"), counters(&fs::read_to_string("src/bpf/intf.h")?)?)?;
    git_version();
    Ok(())
}

/// The probes that run the pure headers as bytecode, for tests only.
fn build_parity(out: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
    let clang = env::var("BPF_CLANG").unwrap_or_else(|_| "clang".into());
    let headers = out.join("scx_utils-bpf_h");
    libbpf_cargo::SkeletonBuilder::new()
        .source("src/bpf/parity.bpf.c")
        .clang(clang)
        .clang_args([
            format!("-I{}", headers.join("arch/x86").display()),
            format!("-I{}", headers.display()),
            "-mcpu=v4".into(),
        ])
        .build_and_generate(out.join("parity_skel.rs"))?;
    Ok(())
}

/// `X(nr_name, "doc")` lines of VRQ_STATS, in order, as a struct that scx_stats can serve.
fn counters(intf: &str) -> Result<String, std::fmt::Error> {
    let mut code = String::from(
        "/// Counters since the load, summed over CPUs: events, from `VRQ_STATS` in `src/bpf/intf.h`.\n\
         #[stat_doc]\n\
         #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Stats)]\n\
         #[stat(top)]\npub struct Counters {\n",
    );
    let mut names = Vec::new();
    for line in intf.lines() {
        let Some(rest) = line.trim().strip_prefix("X(nr_") else { continue };
        let Some((name, rest)) = rest.split_once(',') else { continue };
        let Some(doc) = rest.split('"').nth(1) else { continue };
        writeln!(code, "    #[stat(desc = \"{doc}\")]\n    pub nr_{name}: u64,")?;
        names.push(format!("nr_{name}"));
    }
    code.push_str(
        "    #[stat(desc = \"longest wait of a task that was taken, in ms, to a tick (since the load)\")]\n    \
         pub longest_wait_ms: u64,\n    \
         #[stat(desc = \"longest that a NORMAL task can wait by the formula, in ms, at the most tasks seen\")]\n    \
         pub longest_wait_bound_ms: u64,\n}\n\nimpl Counters {\n    \
         /// From the BPF side's array, in the order of `enum vrq_stat`.\n    \
         pub fn from_raw(raw: &[u64; VRQ_NR_STATS as usize]) -> Self {\n        Self {\n",
    );
    for (i, name) in names.iter().enumerate() {
        writeln!(code, "            {name}: raw[{i}],")?;
    }
    code.push_str(
        "            ..Self::default()\n        }\n    }\n\n    \
         /// What happened since `earlier`. The longest wait and its bound are no rates and stay as they are.\n    \
         pub fn since(&self, earlier: &Self) -> Self {\n        Self {\n",
    );
    for name in &names {
        writeln!(code, "            {name}: self.{name}.wrapping_sub(earlier.{name}),")?;
    }
    code.push_str(
        "            longest_wait_ms: self.longest_wait_ms,\n            \
         longest_wait_bound_ms: self.longest_wait_bound_ms,\n        }\n    }\n\n    \
         /// The sum with those of a load that came `later`, and the longer wait and bound.\n    \
         pub fn plus(&self, later: &Self) -> Self {\n        Self {\n",
    );
    for name in &names {
        writeln!(code, "            {name}: self.{name}.wrapping_add(later.{name}),")?;
    }
    for name in ["longest_wait_ms", "longest_wait_bound_ms"] {
        writeln!(code, "            {name}: self.{name}.max(later.{name}),")?;
    }
    code.push_str("        }\n    }\n}\n");
    Ok(code)
}

/// The commit for `-V`, where there is one.
fn git_version() {
    println!("cargo:rerun-if-changed=.git/HEAD");
    let sha = std::process::Command::new("git")
        .args(["rev-parse", "--short=9", "HEAD"])
        .output()
        .ok()
        .filter(|o| o.status.success())
        .map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string())
        .unwrap_or_default();
    println!("cargo:rustc-env=VRQ_GIT_SHA={sha}");
}
