//! The generated skeleton of `src/bpf/main.bpf.c`.
#![allow(clippy::all, clippy::unwrap_used, clippy::undocumented_unsafe_blocks)]
#![allow(missing_docs, non_camel_case_types, non_snake_case, dead_code)]

include!(concat!(env!("OUT_DIR"), "/bpf_skel.rs"));
