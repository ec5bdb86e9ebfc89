//! What a package installs beside the program: completions and man pages, made from the flags' own documentation.

use crate::cli::Cli;
use crate::failure::{Status, failure};
use anyhow::{Context, Result};
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use std::path::{Path, PathBuf};

/// Options of `scx_vrq completions`.
#[derive(Clone, Debug, Args)]
pub struct CompletionsArgs {
    /// For which shell.
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Options of `scx_vrq man`.
#[derive(Clone, Debug, Args)]
pub struct ManArgs {
    /// A folder that exists: scx_vrq.8 and a page for each subcommand.
    #[arg(value_name = "DIR")]
    pub into: PathBuf,
}

/// `scx_vrq completions`.
///
/// # Errors
/// If stdout cannot be written.
pub fn completions(args: &CompletionsArgs) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "scx_vrq", &mut text);
    std::io::Write::write_all(&mut std::io::stdout(), &text).context("stdout cannot be written")
}

/// `scx_vrq man`.
///
/// # Errors
/// Status 2 if there is no such folder; if a page cannot be written.
pub fn man(args: &ManArgs) -> Result<()> {
    let dir = &args.into;
    if !dir.is_dir() {
        return Err(failure(Status::Usage, format!("{} is no folder", dir.display())));
    }
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    pages(&command, dir).with_context(|| format!("{} cannot be written", dir.display()))
}

fn pages(command: &Command, dir: &Path) -> std::io::Result<()> {
    for sub in command.get_subcommands().filter(|s| !s.is_hide_set()) {
        pages(sub, dir)?;
    }
    // No date: the same source gives the same pages.
    Man::new(command.clone()).section("8").manual("System Administration").generate_to(dir).map(|_| ())
}
