//! What libbpf says: kept, and shown only if something fails. On success it reads like a failure.

use libbpf_rs::PrintLevel;
use std::collections::VecDeque;
use std::sync::Mutex;

const KEPT: usize = 30;
static LINES: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// To be called before anything else of libbpf, which would write to stderr by itself.
pub fn keep() {
    libbpf_rs::set_print(Some((PrintLevel::Debug, keep_line)));
}

fn keep_line(level: PrintLevel, line: String) {
    log::debug!("{}", line.trim_end());
    if level != PrintLevel::Debug
        && let Ok(mut lines) = LINES.lock()
    {
        lines.extend(line.lines().map(str::to_string));
        let excess = lines.len().saturating_sub(KEPT);
        lines.drain(..excess);
    }
}

/// The end of it, for an error message.
pub fn last_words() -> String {
    let lines = LINES.lock().map(|l| l.iter().cloned().collect::<Vec<_>>().join("\n")).unwrap_or_default();
    format!("libbpf's last words:\n{lines}\n(all of them with -v)")
}
