//! Exit statuses, and errors that carry one.

use std::fmt;
use std::process::ExitCode;

/// How scx_vrq ends, other than by 0 (stopped by the user or the administrator).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Any other failure.
    Failed = 1,
    /// Wrong use: a flag, a value, a file that was named.
    Usage = 2,
    /// This kernel cannot: no sched_ext, no BTF, too old.
    Kernel = 69,
    /// Ejected by the kernel: a stall or an error.
    Ejected = 70,
    /// Another scheduler holds the machine.
    Busy = 75,
    /// Not root.
    NotRoot = 77,
}

/// The list of statuses for `--help`.
pub const HELP: &str = "\
Exit status:
   0  stopped by the user or the administrator (signal, SysRq-S)
   1  any other failure
   2  wrong use
  69  this kernel cannot: no sched_ext, no BTF, or too old
  70  ejected by the kernel: a stall or an error; the report is printed
  75  another scheduler holds the machine
  77  not root

Whatever happens, the kernel's own scheduler has the machine after scx_vrq has ended.";

/// An error that says with which status to end.
#[derive(Debug)]
pub struct Failure {
    /// The status to end with.
    pub status: Status,
    /// What is wrong and what to do, one sentence.
    pub why: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Failure {}

/// A `Failure` as an error.
pub fn failure(status: Status, why: impl Into<String>) -> anyhow::Error {
    Failure { status, why: why.into() }.into()
}

/// A failed load: where to look, if the sentence does not say all.
pub fn with_hint(err: anyhow::Error) -> anyhow::Error {
    match err.downcast::<Failure>() {
        Ok(f) if f.status == Status::Kernel => failure(f.status, format!("{} (`scx_vrq check` shows all)", f.why)),
        Ok(f) => f.into(),
        Err(err) => anyhow::anyhow!("{err:#} (`scx_vrq check` shows what a load needs)"),
    }
}

/// Print the error on stderr and give the status that it carries, 1 if none.
pub fn report(err: &anyhow::Error) -> ExitCode {
    use std::io::Write;
    let status = err.chain().find_map(|e| e.downcast_ref::<Failure>()).map_or(Status::Failed, |f| f.status);
    // A closed or full stderr must not change the status.
    let _ = writeln!(std::io::stderr(), "scx_vrq: {err:#}");
    ExitCode::from(status as u8)
}
