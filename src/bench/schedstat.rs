//! /proc/schedstat: the kernel's own count of what the scheduler did, and the switch that turns it on.
//!
//! Versions 15, 16 and 17 have the same nine fields in a `cpuN` line; they differ in the domain
//! lines, which are not read here. The counters only rise, so a measurement is a difference of two
//! readings. The kernel keeps them at rest until `kernel.sched_schedstats` is 1.

use super::counters::Counters;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

pub const PATH: &str = "/proc/schedstat";
const SWITCH: &str = "/proc/sys/kernel/sched_schedstats";
const VERSIONS: std::ops::RangeInclusive<u32> = 15..=17;
const FIELDS: usize = 9;

/// What is read of a `cpuN` line: place in the line, and the name it has in every report.
const NAMES: [(usize, &str); 5] =
    [(0, "yld_count"), (2, "sched_count"), (3, "sched_goidle"), (4, "ttwu_count"), (5, "ttwu_local")];

/// One reading: the counters of each CPU that is online, in the order of `NAMES`.
///
/// The kernel keeps them in 32 bits and lets them wrap, which only a difference for each CPU survives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    cpus: BTreeMap<u32, [u32; NAMES.len()]>,
}

impl Reading {
    /// What was counted since `before`, summed over the CPUs, by name. A CPU that came online in
    /// between counts from its first reading on: nothing is added for it.
    pub fn since(&self, before: &Reading) -> Counters {
        let mut sums = [0u64; NAMES.len()];
        for (cpu, now) in &self.cpus {
            let then = before.cpus.get(cpu).unwrap_or(now);
            for ((sum, now), then) in sums.iter_mut().zip(now).zip(then) {
                *sum += u64::from(now.wrapping_sub(*then));
            }
        }
        NAMES.iter().zip(sums).map(|((_, name), sum)| (name.to_string(), sum)).collect()
    }
}

/// Reads the text of /proc/schedstat. A CPU that is offline has no line.
pub fn parse(text: &str) -> Result<Reading> {
    let mut lines = text.lines();
    let version: u32 = lines
        .next()
        .and_then(|line| line.strip_prefix("version "))
        .and_then(|version| version.trim().parse().ok())
        .context("/proc/schedstat: no version in its first line")?;
    ensure!(
        VERSIONS.contains(&version),
        "/proc/schedstat has version {version}; this program reads {} to {}",
        VERSIONS.start(),
        VERSIONS.end()
    );
    let mut reading = Reading::default();
    for line in lines {
        let mut words = line.split_ascii_whitespace();
        let Some(cpu) = words.next().and_then(|name| name.strip_prefix("cpu")?.parse().ok()) else {
            continue;
        };
        let fields: Vec<&str> = words.collect();
        ensure!(fields.len() == FIELDS, "/proc/schedstat: cpu{cpu} has {} fields, not {FIELDS}", fields.len());
        let mut counters = [0; NAMES.len()];
        for (counter, (place, name)) in counters.iter_mut().zip(NAMES) {
            let field = fields[place];
            *counter =
                field.parse().with_context(|| format!("/proc/schedstat: {name} of cpu{cpu} is {field:?}, no count"))?;
        }
        reading.cpus.insert(cpu, counters);
    }
    ensure!(!reading.cpus.is_empty(), "/proc/schedstat has no cpu line");
    Ok(reading)
}

pub fn read() -> Result<Reading> {
    let text = fs::read_to_string(PATH)
        .with_context(|| format!("{PATH} cannot be read: this kernel lacks CONFIG_SCHEDSTATS"))?;
    parse(&text)
}

/// Turns the kernel's statistics on, and puts the old setting back when dropped.
pub struct Switch {
    path: PathBuf,
    before: String,
}

impl Switch {
    pub fn on() -> Result<Switch> {
        Switch::on_at(Path::new(SWITCH))
    }

    fn on_at(path: &Path) -> Result<Switch> {
        let before = fs::read_to_string(path)
            .with_context(|| format!("{} cannot be read: this kernel lacks CONFIG_SCHEDSTATS", path.display()))?
            .trim()
            .to_string();
        if before != "1" {
            fs::write(path, "1").with_context(|| format!("{} cannot be set to 1: are you root?", path.display()))?;
        }
        Ok(Switch { path: path.to_path_buf(), before })
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if self.before != "1"
            && let Err(error) = fs::write(&self.path, &self.before)
        {
            eprintln!("{} could not be put back to {}: {error}", self.path.display(), self.before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V15: &str = "version 15\ntimestamp 4298183453\n\
        cpu0 1 0 100 30 50 20 7000000 8000000 90\n\
        domain0 3 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36\n\
        cpu1 2 0 200 60 70 40 7000000 8000000 180\n";
    const V16: &str = "version 16\ntimestamp 4298183453\n\
        cpu0 0 0 11 2 3 1 5 6 9\ndomain0 ff 0 0 0\ncpu7 0 0 22 4 6 2 5 6 18\n";
    const V17: &str = "version 17\ntimestamp 4298183453\n\
        cpu0 0 0 11 2 3 1 5 6 9\ndomain0 MC f 0 0 0\ncpu1 0 0 1 1 1 1 1 1 1\n";

    /// The sum of one counter, as counted from a reading of zeroes.
    fn get(text: &str, name: &str) -> u64 {
        let now = parse(text).expect("parses");
        let zero = Reading { cpus: now.cpus.keys().map(|&cpu| (cpu, [0; NAMES.len()])).collect() };
        now.since(&zero)[name]
    }

    #[test]
    fn a_counter_that_wraps_and_a_cpu_that_comes_add_no_nonsense() {
        let before = parse("version 17\ncpu0 0 0 4294967290 0 0 0 0 0 0\n").expect("parses");
        let after = parse("version 17\ncpu0 0 0 4 0 0 0 0 0 0\ncpu1 0 0 700 0 0 0 0 0 0\n").expect("parses");
        assert_eq!(after.since(&before)["sched_count"], 10);
    }

    #[test]
    fn every_known_version_sums_over_its_cpus() {
        assert_eq!(get(V15, "yld_count"), 3);
        assert_eq!(get(V15, "sched_count"), 300);
        assert_eq!(get(V15, "sched_goidle"), 90);
        assert_eq!(get(V15, "ttwu_count"), 120);
        assert_eq!(get(V15, "ttwu_local"), 60);
        assert_eq!(get(V16, "sched_count"), 33);
        assert_eq!(get(V17, "ttwu_count"), 4);
    }

    #[test]
    fn what_is_not_schedstat_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "no version"),
            ("version 14\ncpu0 1\n", "version 14"),
            ("version 99\ncpu0 1\n", "version 99"),
            ("version 17\ncpu0 1 2 3\n", "3 fields"),
            ("version 17\ncpu0 1 2 x 4 5 6 7 8 9\n", "no count"),
            ("version 17\ntimestamp 1\n", "no cpu line"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(reason), "{text:?}: {error}");
        }
    }

    #[test]
    fn the_switch_goes_back_to_what_it_was() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("sched_schedstats");
        for before in ["0", "1"] {
            fs::write(&path, format!("{before}\n")).expect("write");
            let switch = Switch::on_at(&path).expect("on");
            assert_eq!(fs::read_to_string(&path).expect("read").trim(), "1");
            drop(switch);
            assert_eq!(fs::read_to_string(&path).expect("read").trim(), before);
        }
        assert!(Switch::on_at(&dir.path().join("absent")).is_err());
    }
}
