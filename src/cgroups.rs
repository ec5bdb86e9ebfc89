//! Cgroups whose cpu.max or cpu.weight scx_vrq does not honour.

use std::fs;
use std::path::Path;

const ROOT: &str = "/sys/fs/cgroup";
const MAX_DEPTH: usize = 16;

/// The controllers of cgroup v2, such as "cpuset cpu memory"; `None` where it is not mounted.
pub fn controllers() -> Option<String> {
    let names = fs::read_to_string(format!("{ROOT}/cgroup.controllers")).ok()?;
    Some(names.trim().to_string())
}

/// Cgroups below `/sys/fs/cgroup` with a CPU limit or a weight that is not the default.
pub fn not_honoured() -> Vec<String> {
    let mut found = Vec::new();
    walk(Path::new(ROOT), 0, &mut found);
    found.sort();
    found
}

fn walk(dir: &Path, depth: usize, found: &mut Vec<String>) {
    if sets_cpu(dir) {
        let name = dir.strip_prefix(ROOT).unwrap_or(dir).display().to_string();
        found.push(format!("/{name}"));
    }
    let Ok(entries) = fs::read_dir(dir) else { return };
    if depth == MAX_DEPTH {
        return;
    }
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            walk(&entry.path(), depth + 1, found);
        }
    }
}

fn sets_cpu(dir: &Path) -> bool {
    let read = |file: &str| fs::read_to_string(dir.join(file)).unwrap_or_default();
    let (max, weight, idle) = (read("cpu.max"), read("cpu.weight"), read("cpu.idle"));
    !(max.is_empty() || max.starts_with("max")) || !(weight.is_empty() || weight.trim() == "100") || idle.trim() == "1"
}

/// "3 cgroups (/a, /b, /c)", the first few by name.
pub fn summary(groups: &[String]) -> String {
    const SHOWN: usize = 5;
    let names = groups.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    let more = if groups.len() > SHOWN { ", ..." } else { "" };
    format!("{} cgroup{} ({names}{more})", groups.len(), if groups.len() == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_the_first_and_counts_all() {
        let groups: Vec<String> = (0..7).map(|i| format!("/g{i}")).collect();
        assert_eq!(summary(&groups), "7 cgroups (/g0, /g1, /g2, /g3, /g4, ...)");
        assert_eq!(summary(&groups[..1]), "1 cgroup (/g0)");
    }
}
