//! What the plots share: colours, names along an axis, and a drawing that ends as SVG text.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub const WIDTH: u32 = 920;
pub const FONT: (&str, u32) = ("sans-serif", 13);
pub const GREY: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
pub const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);

/// Okabe and Ito's, which people who confuse red and green can tell apart; the reference is grey.
const PALETTE: [RGBColor; 7] = [
    RGBColor(0x55, 0x55, 0x55),
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
];

pub fn colour(index: usize) -> RGBColor {
    PALETTE[index % PALETTE.len()]
}

pub type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A drawing of `WIDTH` by `height` pixels, as SVG.
pub fn svg(height: u32, draw: impl FnOnce(&Canvas) -> Result<()>) -> Result<String> {
    let mut text = String::new();
    {
        let canvas = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        canvas.fill(&WHITE).map_err(plain)?;
        draw(&canvas)?;
        canvas.present().map_err(plain)?;
    }
    Ok(text)
}

/// The drawing library's errors borrow from the drawing; ours do not.
pub fn plain(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("drawing failed: {error}")
}

/// Room for the longest of the names, in pixels, so that none is cut.
pub fn name_width<'a>(names: impl IntoIterator<Item = &'a str>) -> u32 {
    let longest = names.into_iter().map(|name| name.chars().count()).max().unwrap_or(0);
    (longest as u32 * 7 + 14).min(WIDTH / 2)
}

/// A range around all values with some air, never empty.
pub fn around(values: impl IntoIterator<Item = f64>) -> std::ops::Range<f64> {
    let (low, high) = values
        .into_iter()
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return 0.0..1.0;
    }
    let air = ((high - low) * 0.08).max(high.abs() * 0.005).max(1e-9);
    low - air..high + air
}

/// Names to the left of rows that fill the plot's height evenly.
pub fn row_names(canvas: &Canvas, names: &[&str], y: std::ops::Range<i32>) -> Result<()> {
    let left = name_width(names.iter().copied()) as i32;
    let step = f64::from(y.end - y.start) / names.len() as f64;
    for (row, name) in names.iter().enumerate() {
        words(canvas, name, (left, y.start + ((row as f64 + 0.5) * step) as i32), HPos::Right)?;
    }
    Ok(())
}

/// Squares with names: in one line if they fit, else below each other.
pub fn legend<'a>(
    canvas: &Canvas,
    names: impl IntoIterator<Item = &'a str>,
    first_colour: usize,
    from: (i32, i32),
) -> Result<()> {
    let names: Vec<&str> = names.into_iter().collect();
    let widths: Vec<i32> = names.iter().map(|name| name_width([*name]) as i32 + 20).collect();
    let in_line = widths.iter().sum::<i32>() < WIDTH as i32 / 2;
    let (mut x, mut y) = from;
    for (i, name) in names.iter().enumerate() {
        canvas
            .draw(&Rectangle::new([(x, y - 6), (x + 12, y + 6)], colour(first_colour + i).filled()))
            .map_err(plain)?;
        words(canvas, name, (x + 18, y), HPos::Left)?;
        if in_line { x += widths[i] } else { y += 18 }
    }
    Ok(())
}

pub fn words(canvas: &Canvas, text: &str, at: (i32, i32), side: HPos) -> Result<()> {
    let style = FONT.into_font().color(&INK).pos(Pos::new(side, VPos::Center));
    canvas.draw(&Text::new(text.to_string(), at, style)).map_err(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_never_empty() {
        for values in [vec![], vec![3.0], vec![0.0], vec![f64::NAN], vec![1.0, 2.0]] {
            let range = around(values.clone());
            assert!(range.start < range.end, "{values:?}: {range:?}");
        }
    }
}
