//! How far the bench is, on stderr: a bar with the time left on a terminal, a line for each run elsewhere.

use super::results::{Asked, Event};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::io::IsTerminal;
use std::time::Duration;

const TICK: Duration = Duration::from_secs(1);

pub struct Progress {
    bar: ProgressBar,
    asked: Asked,
    on_terminal: bool,
}

impl Progress {
    pub fn new(asked: &Asked) -> Progress {
        let on_terminal = std::io::stderr().is_terminal();
        let bar = ProgressBar::new(asked.nr_runs() as u64).with_style(style());
        if on_terminal {
            bar.enable_steady_tick(TICK);
        }
        Progress { bar, asked: asked.clone(), on_terminal }
    }

    pub fn show(&self, event: &Event) {
        match event {
            Event::Begin(_) => {}
            Event::Starts(turn) => {
                let what = if turn.warmup { "warm-up" } else { "round" };
                let scheduler = self.asked.schedulers.get(turn.scheduler).map_or("?", String::as_str);
                let load = self.asked.points.get(turn.point).map(|point| point.label()).unwrap_or_default();
                let line = format!("{what} {}: {scheduler}, {load}", turn.round + 1);
                if self.on_terminal {
                    self.bar.set_message(line);
                } else {
                    eprintln!("[{}/{}] {line}", self.bar.position() + 1, self.asked.nr_runs());
                }
            }
            Event::Ended(record) => {
                self.bar.inc(1);
                if let Some(failure) = &record.failure {
                    self.line(&format!("{} failed in round {}: {failure}", record.scheduler, record.round + 1));
                }
            }
        }
    }

    /// A line above the bar.
    pub fn line(&self, text: &str) {
        if self.on_terminal {
            self.bar.println(text);
        } else {
            eprintln!("{text}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {left}\n{msg}");
    // The template is a constant and right; without it the bar would only look plainer.
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).with_key(
        "left",
        |state: &ProgressState, out: &mut dyn Write| {
            let left = match time_left(state.elapsed(), state.pos(), state.len().unwrap_or(0)) {
                Some(left) => format!("{} left", humantime::format_duration(Duration::from_secs(left.as_secs()))),
                None => "time left not known yet".to_string(),
            };
            let _ = out.write_str(&left);
        },
    )
}

/// Runs are about equally long: what is left takes as long for each as those that are done did.
fn time_left(elapsed: Duration, done: u64, all: u64) -> Option<Duration> {
    (done > 0).then(|| elapsed.mul_f64(all.saturating_sub(done) as f64 / done as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_for_each_run_as_the_first_ones() {
        let minute = Duration::from_secs(60);
        assert_eq!(time_left(minute, 0, 20), None);
        assert_eq!(time_left(minute, 5, 20), Some(minute * 3));
        assert_eq!(time_left(minute, 20, 20), Some(Duration::ZERO));
    }
}
