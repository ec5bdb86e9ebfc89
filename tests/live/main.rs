//! Tests against a real kernel with sched_ext, as root. `make test` runs them in a virtual machine:
//! `smp` wants several CPUs, `one_cpu` exactly one, `any` either.

mod any;
mod bench;
mod harness;
mod one_cpu;
mod parity;
mod smp;
