//! Any command that the user names: `scx_vrq bench --ratio 50 -- make -j{jobs}`.

use super::super::execute::{self, failure};
use super::super::scheduler_spec::find_program;
use super::{Outcome, Workload, last_line, output_to};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

const JOBS: &str = "{jobs}";

pub struct UserCommand {
    /// Program and arguments; `{jobs}` in any of them becomes the number of jobs.
    argv: Vec<String>,
    /// A line for the shell, run before each run and not timed.
    prepare: Option<String>,
    log: PathBuf,
}

impl UserCommand {
    /// Fails if the program cannot be found.
    pub fn new(argv: &[String], prepare: Option<&str>) -> Result<UserCommand> {
        let program = argv.first().context("no command was given after --")?;
        ensure!(find_program(program).is_some(), "the command {program} cannot be found");
        Ok(UserCommand { argv: argv.to_vec(), prepare: prepare.map(String::from), log: PathBuf::new() })
    }
}

impl Workload for UserCommand {
    fn set_up(&mut self, dir: &Path) -> Result<()> {
        self.log = dir.join("prepare.log");
        Ok(())
    }

    fn prepare(&mut self, jobs: u32) -> Result<()> {
        let Some(line) = &self.prepare else { return Ok(()) };
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(line.replace(JOBS, &jobs.to_string()));
        output_to(&mut shell, &self.log)?;
        let (status, _) = execute::run(&mut shell)?;
        if let Some(how) = failure(status) {
            bail!("--prepare {line:?} {how}: {}", last_line(&self.log));
        }
        Ok(())
    }

    fn command(&self, jobs: u32) -> Result<Command> {
        let mut words = self.argv.iter().map(|word| word.replace(JOBS, &jobs.to_string()));
        let mut command = Command::new(words.next().context("an empty command")?);
        command.args(words);
        Ok(command)
    }

    fn check(&self, _output: &Path) -> Result<Outcome> {
        Ok(Outcome::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_put_in_everywhere() {
        let argv = ["sh", "-c", "echo {jobs} {jobs}"].map(String::from);
        let command = UserCommand::new(&argv, None).expect("sh is there").command(6).expect("command");
        let arguments: Vec<_> = command.get_args().collect();
        assert_eq!(arguments, ["-c", "echo 6 6"]);
    }

    #[test]
    fn a_command_that_is_not_there_is_refused_before_it_is_run() {
        let error = UserCommand::new(&["no-such-command".to_string()], None).err().expect("refused");
        assert_eq!(error.to_string(), "the command no-such-command cannot be found");
    }

    #[test]
    fn a_prepare_that_fails_is_an_error() {
        let dir = tempfile::tempdir().expect("tempdir");
        let mut workload =
            UserCommand::new(&["true".to_string()], Some("echo no {jobs}; exit 4")).expect("true is there");
        workload.set_up(dir.path()).expect("set up");
        let error = workload.prepare(3).expect_err("fails").to_string();
        assert!(error.ends_with("ended with status 4: no 3"), "{error}");
    }
}
