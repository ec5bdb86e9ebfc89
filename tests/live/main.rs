//! Tests against a real kernel with sched_ext, as root. `make test` runs them in a virtual machine:
//! `smp` wants several CPUs, `one_cpu` exactly one, `any`, `cases`, `control`, `faults` and `loader` either.
//! LIVE_LENGTH=full: the cases in full length.

mod any;
mod bench;
mod cases;
mod control;
mod faults;
mod guest;
mod harness;
mod load;
mod loader;
mod mutants;
mod observer;
mod one_cpu;
mod parity;
mod smp;
mod soak;
