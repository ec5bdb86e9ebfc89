//! scx_vrq: parse, run, exit.

use clap::Parser;
use scx_vrq::cli::Cli;
use std::process::ExitCode;

fn main() -> ExitCode {
    match scx_vrq::run(Cli::parse()) {
        Ok(status) => status,
        Err(err) => scx_vrq::failure::report(&err),
    }
}
