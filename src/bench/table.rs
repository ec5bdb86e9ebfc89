//! Tables for the terminal, in the columns of the origin documents.

use super::record::{Measure, RunRecord};
use comfy_table::{CellAlignment, Table, presets::NOTHING};

/// Columns of VRQ's document that the kernel counts, and those that scx_vrq counts itself.
const SCHEDSTAT: [&str; 4] = ["sched_count", "sched_goidle", "ttwu_count", "ttwu_local"];
const GOIDLE: [(&str, &str); 4] = [
    ("idle", "nr_goidle_idle"),
    ("deactivate", "nr_goidle_deactivate"),
    ("needother", "nr_goidle_needother"),
    ("other", "nr_goidle_other"),
];

/// VRQ's table: a row for each scheduler and point, with medians over the rounds that count.
pub fn vrq(runs: &[RunRecord]) -> String {
    let mut header = vec!["scheduler", "load", "real"];
    header.extend(SCHEDSTAT);
    header.extend(GOIDLE.map(|(column, _)| column));
    let mut table = plain(&header);
    for (first, measures) in groups(runs) {
        let mut row = vec![first.scheduler.clone(), first.point.label()];
        if measures.is_empty() {
            row.push(format!("failed: {}", first.failure.as_deref().unwrap_or("no run")));
            table.add_row(row);
            continue;
        }
        row.push(real(median(measures.iter().map(|m| m.elapsed_s))));
        row.extend(SCHEDSTAT.map(|name| count(&measures, |m| m.schedstat.get(name))));
        row.extend(GOIDLE.map(|(_, name)| count(&measures, |m| m.counters.get(name))));
        table.add_row(row);
    }
    right_align(&mut table, 2);
    table.trim_fmt()
}

/// Runs that count, by scheduler and point, in the order in which they first appear.
fn groups(runs: &[RunRecord]) -> Vec<(&RunRecord, Vec<&Measure>)> {
    let mut groups: Vec<(&RunRecord, Vec<&Measure>)> = Vec::new();
    for run in runs.iter().filter(|run| !run.warmup) {
        let place = groups.iter().position(|(first, _)| first.scheduler == run.scheduler && first.point == run.point);
        let place = place.unwrap_or_else(|| {
            groups.push((run, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.extend(&run.measure);
    }
    groups
}

fn count<'a>(measures: &[&'a Measure], get: impl Fn(&'a Measure) -> Option<&'a u64>) -> String {
    let values: Vec<f64> = measures.iter().filter_map(|measure| get(measure)).map(|&count| count as f64).collect();
    if values.is_empty() { "-".to_string() } else { format!("{:.0}", median(values.into_iter())) }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

/// As the shell's `time` prints it: 5m22.097s.
fn real(seconds: f64) -> String {
    let millis = (seconds * 1e3).round() as u64;
    format!("{}m{}.{:03}s", millis / 60_000, millis / 1_000 % 60, millis % 1_000)
}

fn plain(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(header.to_vec());
    table
}

fn right_align(table: &mut Table, from: usize) {
    for column in table.column_iter_mut().skip(from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}
