//! What is written to files, anew after each run, so that nothing is lost whatever comes.

use super::counters::Counters;
use super::record::{Measure, RunRecord};
use super::results::Results;
use super::table;
use crate::failure::{Status, failure};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

/// Files to write; each is optional.
#[derive(Clone, Debug, Default)]
pub struct Exports {
    pub json: Option<PathBuf>,
    pub csv: Option<PathBuf>,
    pub markdown: Option<PathBuf>,
}

impl Exports {
    /// Fails, before anything is measured, if a file cannot be written.
    pub fn check(&self) -> Result<()> {
        let all = || [&self.json, &self.csv, &self.markdown].into_iter().flatten();
        check_different(all())?;
        all().try_for_each(|path| check_writable(path))
    }

    pub fn write(&self, results: &Results) -> Result<()> {
        if let Some(path) = &self.json {
            write_whole(path, &json(results)?)?;
        }
        if let Some(path) = &self.csv {
            write_whole(path, &csv(results)?)?;
        }
        if let Some(path) = &self.markdown {
            write_whole(path, &markdown(results)?)?;
        }
        Ok(())
    }
}

/// Status 2 if the file cannot be written. Leaves what is there as it is, and nothing behind.
pub fn check_writable(path: &Path) -> Result<()> {
    let target = path.metadata();
    if target.as_ref().is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
        return Ok(()); // to open a pipe and close it would be the end of what its reader sees
    }
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map_err(|error| failure(Status::Usage, format!("{} cannot be written: {error}", path.display())))?;
    if target.is_err() {
        // Of a link that led nowhere, where it leads.
        fs::canonicalize(path)
            .and_then(fs::remove_file)
            .with_context(|| format!("{} cannot be removed again", path.display()))?;
    }
    Ok(())
}

/// Status 2 if one file is named twice among what is read and what is to be written.
pub fn check_different<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<()> {
    let mut seen = Vec::new();
    for path in paths {
        let whole = fs::canonicalize(path).or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.clone());
        if seen.contains(&whole) {
            return Err(failure(
                Status::Usage,
                format!("{} is named twice: one would overwrite the other", path.display()),
            ));
        }
        seen.push(whole);
    }
    Ok(())
}

/// Replaces the file at once: a reader, or a crash, finds the old text or the new one, never half of it.
pub fn write_whole(path: &Path, text: &str) -> Result<()> {
    // A device, a pipe or a link (/dev/stdout is all of them) must not be replaced, only written to.
    if path.symlink_metadata().is_ok_and(|meta| !meta.is_file()) {
        return fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()));
    }
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    fs::write(&part, text)
        .and_then(|()| fs::rename(&part, path))
        .inspect_err(|_| drop(fs::remove_file(&part)))
        .with_context(|| format!("{} cannot be written", path.display()))
}

pub fn json(results: &Results) -> Result<String> {
    Ok(serde_json::to_string_pretty(results)? + "\n")
}

/// A line for each run, warm-up and failed ones included; every counter that any run has is a column.
pub fn csv(results: &Results) -> Result<String> {
    let schedstat = names(results, |measure| &measure.schedstat);
    let counters = names(results, |measure| &measure.counters);
    let mut writer = csv::Writer::from_writer(Vec::new());
    let fixed = [
        "scheduler",
        "ops",
        "ratio_percent",
        "jobs",
        "cpus",
        "round",
        "warmup",
        "failure",
        "elapsed_s",
        "user_s",
        "system_s",
        "percent_cpu",
        "context_switches",
        "sleeps",
        "max_rss_kib",
        "steal_s",
        "other_cpu_s",
        "mhz",
        "requests",
        "p50_us",
        "p99_us",
        "p999_us",
        "max_us",
    ];
    let named = schedstat
        .iter()
        .map(|name| format!("schedstat.{name}"))
        .chain(counters.iter().map(|name| format!("counters.{name}")));
    writer.write_record(fixed.map(String::from).into_iter().chain(named))?;
    for run in &results.runs {
        let mut cells = identity(run);
        cells.extend(figures(run.measure.as_ref()));
        let cell = |counters: Option<&Counters>, name: &String| text(counters.and_then(|all| all.get(name)));
        let measure = run.measure.as_ref();
        cells.extend(schedstat.iter().map(|name| cell(measure.map(|m| &m.schedstat), name)));
        cells.extend(counters.iter().map(|name| cell(measure.map(|m| &m.counters), name)));
        writer.write_record(cells)?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

fn identity(run: &RunRecord) -> Vec<String> {
    vec![
        run.scheduler.clone(),
        run.ops.clone().unwrap_or_default(),
        text(run.point.ratio_percent),
        run.point.jobs.to_string(),
        run.point.cpus.to_string(),
        run.round.to_string(),
        run.warmup.to_string(),
        run.failure.clone().unwrap_or_default(),
    ]
}

fn figures(measure: Option<&Measure>) -> [String; 15] {
    let m = measure;
    let latency = m.and_then(|m| m.outcome.latency.as_ref());
    [
        text(m.map(|m| m.elapsed_s)),
        text(m.map(|m| m.user_s)),
        text(m.map(|m| m.system_s)),
        text(m.map(|m| m.percent_cpu)),
        text(m.map(|m| m.context_switches)),
        text(m.map(|m| m.sleeps)),
        text(m.map(|m| m.max_rss_kib)),
        text(m.map(|m| m.noise.steal_s)),
        text(m.map(|m| m.noise.other_cpu_s)),
        text(m.and_then(|m| m.noise.mhz)),
        text(m.map(|m| m.outcome.requests)),
        text(latency.map(|l| l.p50_us)),
        text(latency.map(|l| l.p99_us)),
        text(latency.map(|l| l.p999_us)),
        text(latency.map(|l| l.max_us)),
    ]
}

fn text(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn names(results: &Results, get: fn(&Measure) -> &Counters) -> BTreeSet<String> {
    results
        .runs
        .iter()
        .filter_map(|run| run.measure.as_ref())
        .flat_map(|measure| get(measure).keys().cloned())
        .collect()
}

pub fn markdown(results: &Results) -> Result<String> {
    let mut text = format!("## {}\n\n", title(results));
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{}, {}; scx_vrq {}; {}.\n",
        results.facts.machine(),
        results.facts.place,
        results.facts.scx_vrq,
        results.facts.date
    );
    for sentence in table::sentences(results) {
        let _ = writeln!(text, "- {sentence}");
    }
    text.push('\n');
    for grid in table::all(results)? {
        let _ = writeln!(text, "{}", grid.markdown());
    }
    for warning in &results.warnings {
        let _ = writeln!(text, "- Warning: {warning}.");
    }
    Ok(text)
}

/// "compile, scale 6: default, vrq"
pub fn title(results: &Results) -> String {
    let state = if results.complete { "" } else { " (not complete)" };
    format!("{}: {}{state}", results.asked.workload, results.asked.schedulers.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::mock;
    use super::super::warnings::warnings;
    use super::*;

    /// What a bench of three schedulers comes to: a failed run, a name with every kind of quote, latencies.
    fn results() -> Results {
        let schedulers: [(&str, mock::Elapsed); 3] = [
            ("default", &|round| 10.0 + 0.1 * f64::from(round % 3)),
            ("vrq", &|round| 9.5 + 0.1 * f64::from(round % 3)),
            ("scx_other -n \"a|b\", 'c'", &|round| 10.0 + 0.05 * f64::from(round % 4)),
        ];
        let mut results = mock::results(&schedulers, 7);
        for run in &mut results.runs {
            let p50_us = if run.scheduler == "vrq" { 40 } else { 50 };
            run.measure = run.measure.take().map(|measure| mock::with_latency(measure, p50_us));
        }
        results.runs[4].measure = None;
        results.runs[4].failure = Some("scheduler vrq was ejected during the run".to_string());
        results.warnings = warnings(&results);
        results
    }

    /// Compares with the file of that name; SCX_VRQ_GOLDEN=write writes it anew, to be looked at with git diff.
    fn golden(name: &str, text: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bench/golden").join(name);
        if std::env::var("SCX_VRQ_GOLDEN").is_ok_and(|mode| mode == "write") {
            fs::write(&path, text).expect("written");
        }
        let want = fs::read_to_string(&path).expect("the golden file is there");
        assert!(
            want == text,
            "{name} differs from its golden file: run with SCX_VRQ_GOLDEN=write and look at git diff"
        );
    }

    #[test]
    fn exports_are_as_they_were() {
        let results = results();
        golden("results.json", &json(&results).expect("json"));
        golden("results.csv", &csv(&results).expect("csv"));
        golden("results.md", &markdown(&results).expect("markdown"));
    }

    #[test]
    fn what_was_exported_is_read_back_as_it_was() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("r.json");
        let results = results();
        Exports { json: Some(path.clone()), ..Exports::default() }.write(&results).expect("written");
        assert_eq!(Results::read(&path).expect("read"), results);
        assert_eq!(fs::read_dir(dir.path()).expect("dir").count(), 1, "nothing else is left");
    }

    #[test]
    fn every_field_of_the_json_is_documented() {
        fn keys<'a>(value: &'a serde_json::Value, found: &mut BTreeSet<&'a str>) {
            for (key, value) in value.as_object().into_iter().flatten() {
                found.insert(key);
                // The names of counters are the kernel's and scx_vrq's own.
                if !["schedstat", "counters"].contains(&key.as_str()) {
                    keys(value, found);
                }
            }
            value.as_array().into_iter().flatten().for_each(|item| keys(item, found));
        }
        let value = serde_json::to_value(results()).expect("json");
        let mut found = BTreeSet::new();
        keys(&value, &mut found);
        let doc = include_str!("RESULTS.md");
        let missing: Vec<_> = found.into_iter().filter(|key| !doc.contains(&format!("`{key}`"))).collect();
        assert_eq!(missing, [""; 0]);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_refused_first() {
        let exports = Exports { csv: Some("/nowhere/r.csv".into()), ..Exports::default() };
        let error = exports.check().expect_err("refused");
        assert_eq!(error.downcast_ref::<crate::failure::Failure>().map(|f| f.status), Some(Status::Usage));
        let dir = tempfile::tempdir().expect("tempdir");
        Exports { csv: Some(dir.path().join("r.csv")), ..Exports::default() }.check().expect("can be");
        assert_eq!(fs::read_dir(dir.path()).expect("dir").count(), 0);
    }
}
