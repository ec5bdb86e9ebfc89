//! A bench as the user sees it: collects what happens, shows how far it is, keeps the files up to date.

use super::export::{self, Exports};
use super::facts::Facts;
use super::interrupt;
use super::progress::Progress;
use super::report;
use super::results::{Asked, Event, Results};
use super::table;
use super::warnings::warnings;
use anyhow::{Result, ensure};
use std::io::{self, Write};
use std::path::PathBuf;

#[derive(Default)]
pub struct Session {
    exports: Exports,
    report: Option<PathBuf>,
    /// Made when the bench begins: before that there is nothing to keep.
    begun: Option<(Results, Progress)>,
    /// What runs a virtual machine's CPUs, once that is known.
    accel: Option<String>,
}

impl Session {
    pub fn new(exports: Exports, report: Option<PathBuf>) -> Result<Session> {
        exports.check()?;
        report.iter().try_for_each(|path| export::check_writable(path))?;
        Ok(Session { exports, report, ..Session::default() })
    }

    pub fn take(&mut self, event: Event) -> Result<()> {
        if let Event::Begin(begin) = event {
            let (facts, asked) = *begin;
            // The command that the user gave, not the one that was given on inside.
            self.begin(Facts { command: std::env::args().collect(), ..facts }, asked);
            return Ok(());
        }
        let Some((results, progress)) = &mut self.begun else { return Ok(()) };
        progress.show(&event);
        if let Event::Ended(record) = event {
            results.runs.push(*record);
            results.warnings = warnings(results);
            self.exports.write(results)?;
        }
        Ok(())
    }

    fn begin(&mut self, facts: Facts, asked: Asked) {
        let progress = Progress::new(&asked);
        progress.line(&format!("scx_vrq bench: on {}: {}", facts.place, facts.machine()));
        let accel = self.accel.clone().unwrap_or(facts.accel);
        self.begun = Some((Results::new(Facts { accel, ..facts }, asked), progress));
    }

    /// Told by whoever started the virtual machine, before or after the bench in it begins.
    pub fn set_accel(&mut self, accel: &str) {
        self.accel = Some(accel.to_string());
        if let Some((results, _)) = &mut self.begun {
            results.facts.accel = accel.to_string();
        }
    }

    /// A message from elsewhere, for the user.
    pub fn line(&self, text: &str) {
        match &self.begun {
            Some((_, progress)) => progress.line(text),
            None => eprintln!("{text}"),
        }
    }

    /// The summary of what there is, in every form that was asked for. `outcome`: how the measuring
    /// ended, with doubts that only its end could tell.
    pub fn finish(mut self, outcome: Result<Vec<String>>) -> Result<()> {
        let Some((mut results, progress)) = self.begun.take() else { return outcome.map(drop) };
        drop(progress);
        let stopped = interrupt::requested();
        results.complete = outcome.is_ok() && !stopped && results.runs.len() == results.asked.nr_runs();
        results.warnings = warnings(&results);
        if let Ok(doubts) = &outcome {
            results.warnings.extend(doubts.iter().cloned());
        }
        if !results.runs.is_empty() {
            self.exports.write(&results)?;
            if let Some(path) = &self.report {
                export::write_whole(path, &report::page(&results)?)?;
            }
            print(&results, &mut std::io::stdout().lock()).or_else(|error| {
                match error.downcast_ref::<io::Error>() {
                    // Whoever read it has seen enough (| head).
                    Some(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                    _ => Err(error),
                }
            })?;
        }
        outcome?;
        let (done, all) = (results.runs.len(), results.asked.nr_runs());
        ensure!(!stopped, "stopped by the user after {done} of {all} runs; the kernel's own scheduler is back");
        ensure!(results.nr_failed() == 0, "{} of {all} runs failed: see the warnings", results.nr_failed());
        Ok(())
    }
}

fn print(results: &Results, out: &mut impl Write) -> Result<()> {
    writeln!(out, "{}\non {}: {}\n", export::title(results), results.facts.place, results.facts.machine())?;
    let width = terminal_size::terminal_size().map(|(width, _)| width.0);
    for grid in table::all(results)? {
        writeln!(out, "{}", grid.terminal(width))?;
    }
    for sentence in table::sentences(results) {
        writeln!(out, "{sentence}")?;
    }
    for warning in &results.warnings {
        writeln!(out, "Warning: {warning}.")?;
    }
    Ok(())
}
