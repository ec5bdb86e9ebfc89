//! The tables of a bench: the summary, latencies, and those in the columns of the two origin documents.

use super::grid::{Grid, figure};
use super::latency::Latency;
use super::record::{Measure, Point};
use super::results::Results;
use super::stats::Spread;
use super::summary::{self, MIN_PAIRS, Metric, Verdict};
use anyhow::Result;

/// Columns of VRQ's document that the kernel counts.
const SCHEDSTAT: [&str; 4] = ["sched_count", "sched_goidle", "ttwu_count", "ttwu_local"];
/// Those that scx_vrq counts: ways into the idle task, as `column` and counter.
pub const GOIDLE: [(&str, &str); 4] = [
    ("idle", "nr_goidle_idle"),
    ("deactivate", "nr_goidle_deactivate"),
    ("needother", "nr_goidle_needother"),
    ("other", "nr_goidle_other"),
];

/// Every table that the results have something for.
pub fn all(results: &Results) -> Result<Vec<Grid>> {
    let mut grids = vec![summary(results)];
    if Metric::of(results).contains(&Metric::P99) {
        grids.push(latencies(results)?);
        grids.extend(Some(tails_compared(results)).filter(|grid| !grid.rows.is_empty()));
    }
    grids.push(kernbench(results));
    grids.push(vrq(results));
    Ok(grids)
}

/// An empty table; the load is a column if there are several, else it stands in the title.
fn grid(results: &Results, title: String, columns: &[&str]) -> Grid {
    match &results.asked.points[..] {
        [point] => Grid::new(format!("{title}; {}", point.label()), &[&["scheduler"], columns].concat(), 1),
        _ => Grid::new(title, &[&["scheduler", "load"], columns].concat(), 2),
    }
}

fn first_cells(grid: &Grid, scheduler: &str, point: &Point) -> Vec<String> {
    let mut cells = vec![scheduler.to_string(), point.label()];
    cells.truncate(grid.word_columns);
    cells
}

/// What the bench is about: the spread of its figure, and how it compares.
fn summary(results: &Results) -> Grid {
    let metric = Metric::of(results)[0];
    let title = format!("{}, {} (less is better)", metric.title(), metric.unit());
    let ratio = format!("ratio to {} (95 %)", results.asked.reference());
    let mut grid = grid(results, title, &["runs", "median", "min", "max", "sd", &ratio, "verdict"]);
    for row in summary::rows(results).into_iter().filter(|row| row.metric == metric) {
        let runs = row.spread.map_or(0, |spread| spread.count);
        let failed = if row.failed > 0 { format!(" ({} failed)", row.failed) } else { String::new() };
        let spread =
            |get: fn(&Spread) -> f64| row.spread.as_ref().map_or("-".to_string(), |spread| figure(get(spread)));
        let mut cells = first_cells(&grid, &row.scheduler, &row.point);
        cells.push(format!("{runs}{failed}"));
        cells.extend([spread(|s| s.median), spread(|s| s.min), spread(|s| s.max), spread(|s| s.sd)]);
        cells.push(ratio_cell(&row.verdict));
        cells.push(if runs == 0 { "no run worked".to_string() } else { row.verdict.words() });
        grid.rows.push(cells);
    }
    grid
}

fn ratio_cell(verdict: &Verdict) -> String {
    match verdict.interval() {
        None => "-".to_string(),
        // A single pair.
        Some(i) if i.low == i.high && matches!(verdict, Verdict::TooFew(_)) => format!("{:.3}", i.median),
        Some(i) => format!("{:.3} ({:.3} to {:.3})", i.median, i.low, i.high),
    }
}

/// Percentiles over all runs of a scheduler together.
fn latencies(results: &Results) -> Result<Grid> {
    let title = "Latency over all rounds, us".to_string();
    let mut grid = grid(results, title, &["requests/s", "p50", "p99", "p99.9", "max"]);
    for (scheduler, point, measures) in groups(results) {
        let latency = Latency::merge(measures.iter().filter_map(|m| m.outcome.latency.as_ref()))?;
        let mut cells = first_cells(&grid, scheduler, point);
        cells.push(median_of(&measures, |m| m.outcome.requests as f64 / m.elapsed_s.max(1e-9)));
        cells.extend([latency.p50_us, latency.p99_us, latency.p999_us, latency.max_us].map(figure));
        grid.rows.push(cells);
    }
    Ok(grid)
}

/// Percentiles of each run, compared pair by pair as the summary does it.
fn tails_compared(results: &Results) -> Grid {
    let reference = results.asked.reference();
    let title = format!("Latency compared to {reference} (less is better)");
    let ratio = format!("ratio to {reference} (95 %)");
    let mut grid = grid(results, title, &["percentile", "median run, us", &ratio, "verdict"]);
    let first = Metric::of(results)[0];
    for row in summary::rows(results).into_iter().filter(|row| row.metric != first) {
        if let (Some(spread), false) = (row.spread, row.verdict == Verdict::Reference) {
            let mut cells = first_cells(&grid, &row.scheduler, &row.point);
            cells.extend([row.metric.name().replace("latency ", ""), figure(spread.median)]);
            cells.extend([ratio_cell(&row.verdict), row.verdict.words()]);
            grid.rows.push(cells);
        }
    }
    grid
}

/// Document 000's: means with their standard deviations.
fn kernbench(results: &Results) -> Grid {
    let title = "Average run (std deviation), in kernbench's columns".to_string();
    let columns = ["Elapsed Time", "User Time", "System Time", "Percent CPU", "Context Switches", "Sleeps"];
    let mut grid = grid(results, title, &columns);
    for (scheduler, point, measures) in groups(results) {
        let mean = |get: fn(&Measure) -> f64| {
            let spread = Spread::of(&measures.iter().map(|measure| get(measure)).collect::<Vec<_>>());
            spread.map_or("-".to_string(), |spread| format!("{} ({})", figure(spread.mean), figure(spread.sd)))
        };
        let mut cells = first_cells(&grid, scheduler, point);
        cells.extend([mean(|m| m.elapsed_s), mean(|m| m.user_s), mean(|m| m.system_s), mean(|m| m.percent_cpu)]);
        cells.extend([mean(|m| m.context_switches as f64), mean(|m| m.sleeps as f64)]);
        grid.rows.push(cells);
    }
    grid
}

/// Document 001's: medians of what was counted in a run, by the kernel and by scx_vrq.
fn vrq(results: &Results) -> Grid {
    let mut columns = SCHEDSTAT.to_vec();
    columns.push("real");
    columns.extend(GOIDLE.map(|(column, _)| column));
    let title = "Median run, in VRQ's columns (idle to other: scx_vrq's ways into the idle task)".to_string();
    let mut grid = grid(results, title, &columns);
    for (scheduler, point, measures) in groups(results) {
        let mut cells = first_cells(&grid, scheduler, point);
        cells.extend(SCHEDSTAT.map(|name| count(&measures, |m| m.schedstat.get(name))));
        cells.push(real(Spread::of(&measures.iter().map(|m| m.elapsed_s).collect::<Vec<_>>())));
        cells.extend(GOIDLE.map(|(_, name)| count(&measures, |m| m.counters.get(name))));
        grid.rows.push(cells);
    }
    grid
}

/// The runs that worked, by point and scheduler; those of which none did have no row.
pub fn groups(results: &Results) -> Vec<(&str, &Point, Vec<&Measure>)> {
    let mut groups = Vec::new();
    for point in &results.asked.points {
        for scheduler in &results.asked.schedulers {
            let measures: Vec<&Measure> =
                results.counting(scheduler, point).filter_map(|run| run.measure.as_ref()).collect();
            if !measures.is_empty() {
                groups.push((scheduler.as_str(), point, measures));
            }
        }
    }
    groups
}

/// Median of a counter; a dash where the scheduler does not have it.
fn count<'a>(measures: &[&'a Measure], get: impl Fn(&'a Measure) -> Option<&'a u64>) -> String {
    let counts: Vec<f64> = measures.iter().filter_map(|measure| get(measure)).map(|&count| count as f64).collect();
    Spread::of(&counts).map_or("-".to_string(), |spread| format!("{:.0}", spread.median))
}

fn median_of(measures: &[&Measure], get: impl Fn(&Measure) -> f64) -> String {
    Spread::of(&measures.iter().map(|measure| get(measure)).collect::<Vec<_>>())
        .map_or("-".to_string(), |s| figure(s.median))
}

/// As the shell's `time` prints it: 5m22.097s.
fn real(seconds: Option<Spread>) -> String {
    let Some(spread) = seconds else { return "-".to_string() };
    let millis = (spread.median * 1e3).round() as u64;
    format!("{}m{}.{:03}s", millis / 60_000, millis / 1_000 % 60, millis % 1_000)
}

/// One sentence for each comparison by the first metric: the answer to "which is faster?". None where
/// too few rounds were asked for to have an answer, which a warning says.
pub fn sentences(results: &Results) -> Vec<String> {
    let reference = results.asked.reference();
    let first = Metric::of(results)[0];
    if (results.asked.rounds as usize) < MIN_PAIRS {
        return Vec::new();
    }
    summary::rows(results)
        .into_iter()
        .filter(|row| row.metric == first && row.verdict != Verdict::Reference)
        .map(|row| {
            let what = match row.verdict {
                Verdict::Better(_) | Verdict::Worse(_) => format!("needs {} than {reference}", row.verdict.words()),
                Verdict::TooFew(_) => format!("too few rounds to say how it compares to {reference}"),
                _ => format!("no difference to {reference} shown"),
            };
            let stated = row.verdict.interval().filter(|_| !matches!(row.verdict, Verdict::TooFew(_)));
            let interval = stated.map_or(String::new(), |i| {
                format!(" (ratio {:.3}, 95 % interval {:.3} to {:.3})", i.median, i.low, i.high)
            });
            format!("{} at {}: {what}{interval}.", row.scheduler, row.point.label())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::mock;
    use super::*;

    #[test]
    fn real_is_written_as_the_shell_writes_it() {
        assert_eq!(real(Spread::of(&[322.097])), "5m22.097s");
        assert_eq!(real(None), "-");
    }

    #[test]
    fn the_sentences_say_which_and_by_how_much() {
        let results = mock::results(&[("default", &|_| 10.0), ("vrq", &|_| 9.7)], 10);
        assert_eq!(
            sentences(&results),
            ["vrq at 50 %, -j 2 on 4 CPUs: needs 3.0 % less than default (ratio 0.970, 95 % interval 0.970 to 0.970)."]
        );
    }

    #[test]
    fn counters_that_a_scheduler_lacks_are_dashes() {
        let results = mock::results(&[("default", &|_| 10.0), ("vrq", &|_| 9.7)], 1);
        let grid = vrq(&results);
        assert_eq!(grid.rows[0][6..], ["-", "-", "-", "-"]);
        assert_eq!(grid.rows[1][6..], ["9727", "56000", "6", "100"]);
    }
}
