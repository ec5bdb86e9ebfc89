//! A table of texts, and its forms: for the terminal, as Markdown, as HTML.

use comfy_table::{CellAlignment, ContentArrangement, Table, TableComponent, presets};
use maud::{Markup, html};

/// Every row has as many cells as the header; missing ones are shown empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    pub title: String,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// Columns of words, on the left; all others hold figures.
    pub word_columns: usize,
}

impl Grid {
    pub fn new(title: impl Into<String>, header: &[&str], word_columns: usize) -> Grid {
        let header = header.iter().map(|column| column.to_string()).collect();
        Grid { title: title.into(), header, rows: Vec::new(), word_columns }
    }

    /// `width`: columns of the terminal; None lets every line be as long as it is.
    pub fn terminal(&self, width: Option<u16>) -> String {
        let mut table = self.table(|cell| cell.to_string());
        table.load_preset(presets::NOTHING);
        table.set_style(TableComponent::HeaderLines, '─').set_style(TableComponent::MiddleHeaderIntersections, '─');
        table.column_iter_mut().for_each(|column| {
            column.set_padding((0, 1));
        });
        if let Some(width) = width {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        format!("{}\n{}\n", self.title, table.trim_fmt())
    }

    pub fn markdown(&self) -> String {
        // A bar within a cell would end it.
        let mut table = self.table(|cell| cell.replace('|', "\\|"));
        table.load_preset(presets::ASCII_MARKDOWN);
        format!("### {}\n\n{}\n", self.title, table.trim_fmt())
    }

    pub fn html(&self) -> Markup {
        let class = |column: usize| if column < self.word_columns { "word" } else { "figure" };
        html! {
            h3 { (self.title) }
            div.scroll { table {
                thead { tr { @for (i, cell) in self.header.iter().enumerate() { th class=(class(i)) { (cell) } } } }
                tbody { @for row in &self.rows {
                    tr { @for (i, cell) in row.iter().enumerate() { td class=(class(i)) { (cell) } } }
                } }
            } }
        }
    }

    fn table(&self, escape: fn(&str) -> String) -> Table {
        let cells = |row: &[String]| -> Vec<String> { row.iter().map(|cell| escape(cell)).collect() };
        let mut table = Table::new();
        table.set_header(cells(&self.header));
        self.rows.iter().for_each(|row| {
            table.add_row(cells(row));
        });
        for column in table.column_iter_mut().skip(self.word_columns) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }
}

/// A figure with as many digits as it deserves: about four.
pub fn figure(value: f64) -> String {
    let digits = match value.abs() {
        v if !v.is_finite() => return "-".to_string(),
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let mut grid = Grid::new("Sums", &["who", "count"], 1);
        grid.rows = vec![vec!["a|b".into(), "7".into()], vec!["<c>".into(), "1234".into()]];
        grid
    }

    #[test]
    fn forms_of_a_table() {
        assert_eq!(
            grid().markdown(),
            "### Sums\n\n| who  | count |\n|------|-------|\n| a\\|b |     7 |\n| <c>  |  1234 |\n"
        );
        assert!(grid().terminal(None).contains("a|b"));
        assert!(grid().terminal(Some(10)).lines().all(|line| line.chars().count() <= 10));
        let html = grid().html().into_string();
        assert!(html.contains("<td class=\"word\">&lt;c&gt;</td><td class=\"figure\">1234</td>"), "{html}");
    }

    #[test]
    fn figures_keep_about_four_digits() {
        let all = [0.0123, 9.87654, 12.3456, 123.456, 200_751.0, f64::NAN].map(figure);
        assert_eq!(all, ["0.012", "9.877", "12.35", "123.5", "200751", "-"]);
    }
}
