//! The plots of a report. Each is left out where the results have nothing for it.

use super::super::latency::Latency;
use super::super::record::{Measure, Point};
use super::super::results::Results;
use super::super::stats::median;
use super::super::summary::{self, Metric};
use super::super::table::{GOIDLE, groups};
use super::chart::{FONT, GREY, INK, around, colour, legend, name_width, plain, row_names, svg, words};
use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

const ROW: u32 = 34;
const X_AXIS: u32 = 50;

pub struct Plot {
    /// One word.
    pub name: &'static str,
    pub title: String,
    pub caption: String,
    pub svg: String,
}

pub fn all(results: &Results) -> Result<Vec<Plot>> {
    let mut plots = Vec::new();
    for point in &results.asked.points {
        plots.extend(dots(results, point)?);
    }
    plots.extend(sweep(results)?);
    plots.extend(goidle(results)?);
    for point in &results.asked.points {
        plots.extend(percentiles(results, point)?);
    }
    Ok(plots)
}

/// Every run as a dot, a row for each scheduler, with its median as a line.
fn dots(results: &Results, point: &Point) -> Result<Option<Plot>> {
    let metric = Metric::of(results)[0];
    let rows: Vec<(&str, Vec<f64>)> = groups(results)
        .into_iter()
        .filter(|(_, at, _)| *at == point)
        .map(|(scheduler, _, measures)| {
            (scheduler, measures.iter().filter_map(|measure| metric.get(measure)).collect())
        })
        .collect();
    if rows.is_empty() {
        return Ok(None);
    }
    let names: Vec<&str> = rows.iter().map(|(name, _)| *name).collect();
    let range = around(rows.iter().flat_map(|(_, values)| values.iter().copied()));
    let svg = svg(rows.len() as u32 * ROW + X_AXIS + 10, |canvas| {
        let mut chart = ChartBuilder::on(canvas)
            .margin(6)
            .margin_right(20)
            .x_label_area_size(X_AXIS)
            .margin_left(name_width(names.iter().copied()) + 6)
            .build_cartesian_2d(range, rows.len() as f64..0.0)
            .map_err(plain)?;
        let axis = format!("{} ({})", metric.name(), metric.unit());
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(WHITE)
            .bold_line_style(GREY)
            .x_desc(axis)
            .label_style(FONT)
            .axis_desc_style(FONT)
            .draw()
            .map_err(plain)?;
        for (row, (_, values)) in rows.iter().enumerate() {
            let middle = row as f64 + 0.5;
            // Dots of equal value lie beside each other in the order of their rounds.
            let spread = |i: usize| middle + (i as f64 / (values.len().max(2) - 1) as f64 - 0.5) * 0.5;
            let circles = values
                .iter()
                .enumerate()
                .map(|(i, &value)| Circle::new((value, spread(i)), 4, colour(row).mix(0.6).filled()));
            chart.draw_series(circles).map_err(plain)?;
            let line = median(&mut values.clone());
            chart
                .draw_series([PathElement::new(
                    vec![(line, middle - 0.38), (line, middle + 0.38)],
                    INK.stroke_width(2),
                )])
                .map_err(plain)?;
        }
        row_names(canvas, &names, chart.plotting_area().get_pixel_range().1)
    })?;
    Ok(Some(Plot {
        name: "runs",
        title: format!("{}, {}.", metric.title(), point.label()),
        caption: "Each run is a dot, first round on top; the line is the median. Less is better; the axis does not start at 0.".into(),
        svg,
    }))
}

/// Ratio to the reference over the loads, with intervals.
fn sweep(results: &Results) -> Result<Option<Plot>> {
    let points = &results.asked.points;
    let metric = Metric::of(results)[0];
    let rows: Vec<summary::Row> = summary::rows(results).into_iter().filter(|row| row.metric == metric).collect();
    let ends = rows.iter().filter_map(|row| row.verdict.interval()).flat_map(|interval| [interval.low, interval.high]);
    let ends: Vec<f64> = ends.chain([1.0]).collect();
    if points.len() < 2 || ends.len() < 2 {
        return Ok(None);
    }
    let others: Vec<&String> =
        results.asked.schedulers.iter().filter(|name| *name != results.asked.reference()).collect();
    let labels: Vec<String> = points.iter().map(Point::label).collect();
    let svg = svg(360, |canvas| {
        let mut chart = ChartBuilder::on(canvas)
            .margin(10)
            .margin_top(others.len() as u32 * 18 + 14)
            .x_label_area_size(X_AXIS)
            .y_label_area_size(70)
            .build_cartesian_2d(0.0..points.len() as f64, around(ends))
            .map_err(plain)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(0)
            .light_line_style(WHITE)
            .bold_line_style(GREY)
            .y_desc(format!("ratio to {}", results.asked.reference()))
            .label_style(FONT)
            .axis_desc_style(FONT)
            .draw()
            .map_err(plain)?;
        chart
            .draw_series([PathElement::new(vec![(0.0, 1.0), (points.len() as f64, 1.0)], INK.stroke_width(1))])
            .map_err(plain)?;
        for (series, scheduler) in others.iter().enumerate() {
            let style = colour(series + 1);
            // Series stand beside each other within a load.
            let at = |place: usize| place as f64 + (series as f64 + 1.0) / (others.len() as f64 + 1.0);
            for row in rows.iter().filter(|row| row.scheduler == **scheduler) {
                let (Some(place), Some(i)) = (points.iter().position(|p| *p == row.point), row.verdict.interval())
                else {
                    continue;
                };
                let x = at(place);
                chart
                    .draw_series([PathElement::new(vec![(x, i.low), (x, i.high)], style.stroke_width(3))])
                    .map_err(plain)?;
                chart.draw_series([Circle::new((x, i.median), 5, style.filled())]).map_err(plain)?;
            }
        }
        let (x, y) = chart.plotting_area().get_pixel_range();
        let step = (x.end - x.start) as f64 / points.len() as f64;
        for (place, label) in labels.iter().enumerate() {
            let middle = x.start + ((place as f64 + 0.5) * step) as i32;
            words(canvas, label, (middle, y.end + 12), HPos::Center)?;
        }
        legend(canvas, others.iter().map(|name| name.as_str()), 1, (x.start, 14))
    })?;
    Ok(Some(Plot {
        name: "loads",
        title: format!("{} over the loads, as a ratio to {}.", metric.title(), results.asked.reference()),
        caption: "Dot: median of the paired runs; bar: its 95 % interval. Below 1 is better.".into(),
        svg,
    }))
}

/// The ways into the idle task, stacked: a bar for each scheduler that counts them and each load.
fn goidle(results: &Results) -> Result<Option<Plot>> {
    let several = results.asked.points.len() > 1;
    let bars: Vec<(String, Vec<f64>)> = groups(results)
        .into_iter()
        .filter(|(_, _, measures)| measures.iter().any(|measure| measure.counters.contains_key(GOIDLE[0].1)))
        .map(|(scheduler, point, measures)| {
            let name = if several { format!("{scheduler}, {}", point.label()) } else { scheduler.to_string() };
            (name, GOIDLE.map(|(_, counter)| median_count(&measures, counter)).to_vec())
        })
        .collect();
    if bars.is_empty() {
        return Ok(None);
    }
    let names: Vec<&str> = bars.iter().map(|(name, _)| name.as_str()).collect();
    let longest = bars.iter().map(|(_, parts)| parts.iter().sum::<f64>()).fold(1.0, f64::max);
    let svg = svg(bars.len() as u32 * ROW + X_AXIS + 36, |canvas| {
        let mut chart = ChartBuilder::on(canvas)
            .margin(6)
            .margin_top(30)
            .margin_right(30)
            .x_label_area_size(X_AXIS)
            .margin_left(name_width(names.iter().copied()) + 6)
            .build_cartesian_2d(0.0..longest * 1.02, bars.len() as f64..0.0)
            .map_err(plain)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(WHITE)
            .bold_line_style(GREY)
            .x_desc("passes into idle, in a run")
            .x_label_formatter(&|value| format!("{value:.0}"))
            .label_style(FONT)
            .axis_desc_style(FONT)
            .draw()
            .map_err(plain)?;
        for (row, (_, parts)) in bars.iter().enumerate() {
            let mut from = 0.0;
            for (part, &count) in parts.iter().enumerate() {
                let corners = [(from, row as f64 + 0.2), (from + count, row as f64 + 0.8)];
                chart.draw_series([Rectangle::new(corners, colour(part + 1).filled())]).map_err(plain)?;
                from += count;
            }
        }
        let (x, y) = chart.plotting_area().get_pixel_range();
        legend(canvas, GOIDLE.map(|(column, _)| column), 1, (x.start, 14))?;
        row_names(canvas, &names, y)
    })?;
    Ok(Some(Plot {
        name: "goidle",
        title: "Ways into the idle task.".into(),
        caption: "Medians of scx_vrq's own counts. idle: the CPU was idle and found nothing again, which is work for nothing; \
                  deactivate: the running task went to sleep; needother: it had to leave for another CPU; other: the rest."
            .into(),
        svg,
    }))
}

/// Latency at each percentile, all runs of a scheduler together; both axes stretch the tail.
fn percentiles(results: &Results, point: &Point) -> Result<Option<Plot>> {
    let mut curves = Vec::new();
    for (scheduler, at, measures) in groups(results) {
        let latency = Latency::merge(measures.iter().filter_map(|measure| measure.outcome.latency.as_ref()))?;
        if at == point && latency.count > 0 {
            curves.push((scheduler, curve(&latency)));
        }
    }
    if curves.is_empty() {
        return Ok(None);
    }
    let values = || curves.iter().flat_map(|(_, curve)| curve.iter().map(|&(_, us)| us));
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(1e-3, f64::max));
    let nines = curves.iter().flat_map(|(_, curve)| curve.iter().map(|&(nines, _)| nines)).fold(2.0, f64::max);
    let svg = svg(380, |canvas| {
        let mut chart = ChartBuilder::on(canvas)
            .margin(10)
            .margin_top(curves.len() as u32 * 18 + 14)
            .x_label_area_size(X_AXIS)
            .y_label_area_size(80)
            .build_cartesian_2d(0.0..nines, ((low * 0.8).max(1e-3)..high * 1.25).log_scale())
            .map_err(plain)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .bold_line_style(GREY)
            .y_desc("latency (us)")
            .x_desc("percentile")
            .x_labels(nines.ceil() as usize + 1)
            .x_label_formatter(&|nines| percent(*nines))
            .label_style(FONT)
            .axis_desc_style(FONT)
            .draw()
            .map_err(plain)?;
        for (series, (_, curve)) in curves.iter().enumerate() {
            chart.draw_series(LineSeries::new(curve.iter().copied(), colour(series).stroke_width(2))).map_err(plain)?;
        }
        let (x, _) = chart.plotting_area().get_pixel_range();
        legend(canvas, curves.iter().map(|(name, _)| *name), 0, (x.start, 14))
    })?;
    Ok(Some(Plot {
        name: "latency",
        title: format!("Latency by percentile, {}.", point.label()),
        caption: "All runs together; both axes are stretched towards the tail. Lower is better.".into(),
        svg,
    }))
}

/// Nines and microseconds: 0 nines is the 0th percentile, 1 the 90th, 2 the 99th.
fn curve(latency: &Latency) -> Vec<(f64, f64)> {
    let most = (latency.count as f64).log10().min(5.0);
    let steps = 100;
    (0..=steps)
        .map(|step| {
            let nines = most * f64::from(step) / f64::from(steps);
            (nines, latency.percentile_us(100.0 * (1.0 - 10f64.powf(-nines))))
        })
        .collect()
}

/// The percentile at so many nines, as short as it can be said: 90, 99.9.
fn percent(nines: f64) -> String {
    let digits = (nines.ceil() as usize).saturating_sub(2);
    format!("{:.digits$}", 100.0 * (1.0 - 10f64.powf(-nines)))
}

fn median_count(measures: &[&Measure], counter: &str) -> f64 {
    let mut counts: Vec<f64> =
        measures.iter().filter_map(|measure| measure.counters.get(counter)).map(|&count| count as f64).collect();
    if counts.is_empty() { 0.0 } else { median(&mut counts) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_named_as_short_as_they_can_be() {
        assert_eq!([0.0, 1.0, 2.0, 3.0, 4.0].map(percent), ["0", "90", "99", "99.9", "99.99"]);
    }
}
