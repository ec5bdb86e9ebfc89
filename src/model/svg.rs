//! The timeline as a picture: who has which CPU, who waits, and how many are queued.

use super::event::Event;
use super::timeline::{Stretch, Timeline};
use super::world::World;
use crate::bench::chart::{self, Canvas, GREY, INK, WIDTH, plain, words};
use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use std::ops::Range;

const LANE: i32 = 22;
const BAR: i32 = 16;
const GAP: i32 = 14;
const TOP: i32 = 34;
const RIGHT: i32 = 24;
const QNR_HEIGHT: i32 = 60;
/// More would be a picture that nobody reads.
const MAX_ROWS: usize = 24;
/// Pixels of a letter, for names that go into a bar.
const LETTER: i32 = 7;

/// Where things are, in pixels.
struct Layout<'a, 'b> {
    canvas: &'a Canvas<'b>,
    left: i32,
    from: u64,
    to: u64,
}

impl Layout<'_, '_> {
    fn x(&self, at: u64) -> i32 {
        let width = f64::from(WIDTH as i32 - RIGHT - self.left);
        let at = at.clamp(self.from, self.to) - self.from;
        self.left + (at as f64 / (self.to - self.from) as f64 * width).round() as i32
    }

    fn shows(&self, stretch: &Stretch) -> bool {
        stretch.from < self.to && stretch.to > self.from
    }

    /// At least a pixel wide, or a short run would not be seen.
    fn bar(&self, stretch: &Stretch, y: i32, row: usize, opacity: f64) -> Result<()> {
        let (left, right) = (self.x(stretch.from), self.x(stretch.to));
        let corners = [(left, y - BAR / 2), (right.max(left + 1), y + BAR / 2)];
        self.canvas.draw(&Rectangle::new(corners, chart::colour(row + 1).mix(opacity).filled())).map_err(plain)?;
        if opacity == RUNS && right - left > 2 {
            // Two slices of one task in a row are two, to the eye as well.
            self.canvas
                .draw(&PathElement::new(vec![(left, corners[0].1), (left, corners[1].1)], WHITE))
                .map_err(plain)?;
        }
        Ok(())
    }

    fn line(&self, points: Vec<(i32, i32)>, colour: RGBColor) -> Result<()> {
        self.canvas.draw(&PathElement::new(points, colour)).map_err(plain)
    }
}

const RUNS: f64 = 0.75;
const WAITS: f64 = 0.2;

/// The stretch of time `span` (ns).
pub fn draw<'a>(world: &World, events: impl Iterator<Item = &'a Event>, span: Range<u64>) -> Result<String> {
    let line = Timeline::new(world, events);
    let nr_rows = world.rows.len().min(MAX_ROWS);
    let cpu_y = |cpu: usize| TOP + LANE * cpu as i32 + LANE / 2;
    let task_y = |row: usize| cpu_y(world.cpus.len()) + GAP + LANE * row as i32;
    let qnr_y = task_y(nr_rows) + GAP;
    let height = qnr_y + QNR_HEIGHT + 40;
    let cpu_names: Vec<String> = (0..world.cpus.len()).map(|cpu| format!("CPU {cpu}")).collect();
    let names = world.rows.iter().take(nr_rows).map(|row| row.name.as_str());
    chart::svg(height as u32, |canvas| {
        let left =
            chart::name_width(names.clone().chain(cpu_names.iter().map(String::as_str)).chain(["queued"])) as i32;
        let at = Layout { canvas, left, from: span.start, to: span.end };
        time_axis(&at, TOP..qnr_y + QNR_HEIGHT)?;
        let lanes = cpu_names.iter().enumerate().map(|(cpu, name)| (name.as_str(), cpu_y(cpu)));
        for (name, y) in lanes.chain(names.clone().enumerate().map(|(row, name)| (name, task_y(row)))) {
            words(canvas, name, (left - 10, y), HPos::Right)?;
        }
        for stretch in line.stretches.iter().filter(|stretch| at.shows(stretch)) {
            let row = world.tasks[stretch.id].row;
            if let Some(cpu) = stretch.cpu {
                at.bar(stretch, cpu_y(cpu), row, RUNS)?;
                name_in_bar(&at, stretch, &world.rows[row].name, cpu_y(cpu))?;
            }
            if row < nr_rows {
                at.bar(stretch, task_y(row), row, if stretch.cpu.is_some() { RUNS } else { WAITS })?;
            }
        }
        let more = match world.rows.len() - nr_rows {
            0 => String::new(),
            more => format!("; {more} more tasks have no lane"),
        };
        words(canvas, &format!("full colour: runs; pale: waits{more}"), (left, 14), HPos::Left)?;
        queue(&at, &line.qnr, qnr_y..qnr_y + QNR_HEIGHT)
    })
}

fn name_in_bar(at: &Layout, stretch: &Stretch, name: &str, y: i32) -> Result<()> {
    let (left, right) = (at.x(stretch.from), at.x(stretch.to));
    if right - left > LETTER * name.chars().count() as i32 + 6 {
        words(at.canvas, name, (left + 4, y), HPos::Left)?;
    }
    Ok(())
}

/// Lines at round milliseconds.
fn time_axis(at: &Layout, y: Range<i32>) -> Result<()> {
    let span_ms = (at.to - at.from) as f64 / 1e6;
    let power = 10f64.powf((span_ms / 8.0).log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|step| span_ms / step <= 10.0).unwrap_or(span_ms);
    let first = (at.from as f64 / 1e6 / step).ceil() as u64;
    for n in (first..).take_while(|&n| n as f64 * step <= at.to as f64 / 1e6 + 1e-9) {
        let x = at.x((n as f64 * step * 1e6) as u64);
        at.line(vec![(x, y.start), (x, y.end)], GREY)?;
        let unit = if n == first { " ms" } else { "" };
        words(at.canvas, &format!("{}{unit}", (n as f64 * step * 1e6).round() / 1e6), (x, y.end + 16), HPos::Center)?;
    }
    Ok(())
}

/// Tasks queued and not running, as steps.
fn queue(at: &Layout, qnr: &[(u64, usize)], y: Range<i32>) -> Result<()> {
    let before = qnr.iter().take_while(|&&(when, _)| when <= at.from).last().map_or(0, |&(_, n)| n);
    let inside: Vec<_> = qnr.iter().filter(|&&(when, _)| at.from < when && when < at.to).collect();
    let most = inside.iter().map(|&&(_, n)| n).chain([before, 1]).max().unwrap_or(1);
    let level = |n: usize| y.end - (f64::from(y.end - y.start - 8) * n as f64 / most as f64) as i32;
    let mut points = vec![(at.left, level(before))];
    for &&(when, n) in &inside {
        let x = at.x(when);
        let last = points.last().map_or(level(0), |&(_, y)| y);
        points.extend([(x, last), (x, level(n))]);
    }
    let last = points.last().map_or(level(0), |&(_, y)| y);
    points.push((at.x(at.to), last));
    words(at.canvas, "queued", (at.left - 10, (y.start + y.end) / 2), HPos::Right)?;
    words(at.canvas, &most.to_string(), (at.left - 10, level(most)), HPos::Right)?;
    words(at.canvas, "0", (at.left - 10, level(0)), HPos::Right)?;
    at.line(vec![(at.left, level(0)), (at.x(at.to), level(0))], GREY)?;
    at.line(points, INK)
}
