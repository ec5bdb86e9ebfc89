//! The page of `--report`: one file, complete in itself, that shows what was measured and how.

pub(crate) mod chart;
mod plots;

use super::export::{self, title};
use super::results::Results;
use super::table;
use anyhow::Result;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");

pub fn page(results: &Results) -> Result<String> {
    let title = title(results);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "scx_vrq bench: " (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { main {
                h1 { (title) }
                p.lead { "On " (results.facts.place) ": " (results.facts.machine()) ". " (results.facts.date) "." }
                (answers(results))
                (doubts(results))
                (figures(results)?)
                h2 { "Tables" }
                @for grid in table::all(results)? { (grid.html()) }
                (method(results))
                (machine(results))
                h2 { "Raw data" }
                p { "What " code { "--export-json" } " writes; " code { "scx_vrq report FILE.json" } " makes this page from it." }
                details { summary { "JSON" } pre { (export::json(results)?) } }
            } }
        }
    };
    Ok(page.into_string())
}

fn answers(results: &Results) -> Markup {
    let sentences = table::sentences(results);
    html! {
        @if !sentences.is_empty() {
            ul.answers { @for sentence in sentences { li { (sentence) } } }
        }
    }
}

fn doubts(results: &Results) -> Markup {
    html! {
        @if !results.warnings.is_empty() {
            section.warnings {
                h2 { "Before you believe it" }
                ul { @for warning in &results.warnings { li { (warning) "." } } }
            }
        }
    }
}

fn figures(results: &Results) -> Result<Markup> {
    let plots = plots::all(results)?;
    Ok(html! {
        @for plot in plots {
            figure {
                figcaption { strong { (plot.title) } " " (plot.caption) }
                div role="img" aria-label=(plot.title) { (PreEscaped(plot.svg)) }
            }
        }
    })
}

/// Name and content of a file for each plot.
pub fn plots(results: &Results) -> Result<Vec<(String, String)>> {
    let file = |(i, plot): (usize, plots::Plot)| (format!("{}-{}.svg", i + 1, plot.name), plot.svg);
    Ok(plots::all(results)?.into_iter().enumerate().map(file).collect())
}

fn method(results: &Results) -> Markup {
    html! {
        h2 { "How it was measured" }
        p {
            (results.asked.rounds) " rounds, in each of which every scheduler ran once at every load, backwards every other round; "
            (results.asked.warmup_rounds) " to warm up before them, which do not count. The ratio of two schedulers is the median of \
            the ratios of the runs of one round; its interval is the 95 % bootstrap interval of that median (10,000 resamples, \
            seeded). Where it holds 1, no difference is shown. Each interval stands by itself: of twenty comparisons of equals, \
            one is expected to show a difference."
        }
        p {
            "sched_count, sched_goidle, ttwu_count and ttwu_local are differences of /proc/schedstat over all CPUs and \
            everything that ran; idle, deactivate, needother and other are scx_vrq's own counts of its ways into the idle task. \
            Context Switches are involuntary, Sleeps voluntary switches of the workload and its children, as in kernbench."
        }
    }
}

fn machine(results: &Results) -> Markup {
    let facts = &results.facts;
    let rows = [
        ("Place", facts.place.clone()),
        ("Kernel", facts.kernel.clone()),
        ("CPU", facts.cpu_model.clone()),
        ("CPUs", format!("{} ({})", facts.cpus, facts.topology)),
        ("Runs on", if facts.accel.is_empty() { "the hardware".to_string() } else { facts.accel.clone() }),
        ("Memory", format!("{} MiB", facts.memory_mib)),
        ("scx_vrq", facts.scx_vrq.clone()),
        ("Compiler", facts.compiler.clone()),
        ("Workload", results.asked.workload.clone()),
        ("Command", facts.command.join(" ")),
    ];
    html! {
        h2 { "Machine and versions" }
        div.scroll { table { tbody {
            @for (name, value) in rows { tr { th.word { (name) } td.word { (value) } } }
            @for scheduler in &results.asked.schedulers {
                tr { th.word { "Scheduler " (scheduler) } td.word { (ops(results, scheduler)) } }
            }
        } } }
    }
}

/// The kernel's name for a scheduler, as its runs saw it.
fn ops(results: &Results, scheduler: &str) -> String {
    let ops = results.runs.iter().filter(|run| run.scheduler == scheduler).find_map(|run| run.ops.clone());
    ops.unwrap_or_else(|| "the kernel's own".to_string())
}

#[cfg(test)]
mod tests {
    use super::super::mock;
    use super::*;

    #[test]
    fn the_page_is_complete_in_itself() {
        let results = mock::results(&[("default", &|_| 10.0), ("vrq", &|round| 9.0 + 0.1 * f64::from(round))], 10);
        let page = page(&results).expect("a page");
        for outside in ["http://", "https://", "<script", "<link", "@import", "src="] {
            let found = page.matches(outside).count()
                - page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count() * usize::from(outside == "http://");
            assert_eq!(found, 0, "{outside}");
        }
        assert!(page.matches("<svg").count() >= 2);
        assert!(page.contains("Mock CPU &lt;fast &amp; &quot;cheap&quot;&gt;"));
        assert!(!page.contains("<fast"));
    }

    #[test]
    fn results_with_no_run_that_worked_still_make_a_page() {
        let mut results = mock::results(&[("default", &|_| 10.0)], 2);
        results.runs.iter_mut().for_each(|run| {
            run.measure = None;
            run.failure = Some("make ended with status 2".into());
        });
        assert!(page(&results).expect("a page").contains("no run worked"));
    }
}
