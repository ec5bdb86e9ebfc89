//! The configuration file: TOML, one key for each of [`Settings`], all optional, the command line wins.
//!
//! A key is the flag's name with `_` for `-`, and its value goes through the flag's own parser, so ranges and
//! meanings are written once.

use crate::cli::Settings;
use crate::failure::{Status, failure};
use crate::tune::{TUNABLES, Tunables};
use anyhow::{Context, Result};
use std::io::{ErrorKind, Read, Write};
use std::ops::Range;
use std::path::Path;
use toml_edit::{Document, DocumentMut, Item, Value};

/// Read if `--config` names no other; it need not be there.
pub const PATH: &str = "/etc/scx_vrq.toml";
/// More than this is no configuration.
const MAX_BYTES: u64 = 64 << 10;

/// The settings of the file that `--config` names, or of [`PATH`] if there is one.
///
/// # Errors
/// Status 2 with the place: a named file that cannot be read, or wrong content.
pub fn read(named: Option<&Path>) -> Result<Settings> {
    let path = named.unwrap_or(Path::new(PATH));
    let text = match text(path) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound && named.is_none() => return Ok(Settings::default()),
        Err(e) => {
            let why = format!("{} cannot be read ({e}): name a readable file with --config", path.display());
            return Err(failure(Status::Usage, why));
        }
    };
    parse(&text).map_err(|e| failure(Status::Usage, format!("{}:{e}", path.display())))
}

fn text(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(std::io::Error::other(format!("it is larger than {} KiB", MAX_BYTES >> 10)));
    }
    Ok(text)
}

/// The settings in `text`.
///
/// # Errors
/// `LINE:COLUMN: ` and what is wrong there.
pub fn parse(text: &str) -> Result<Settings, String> {
    let at = |span: Option<Range<usize>>| {
        let before = &text[..text.floor_char_boundary(span.map_or(0, |s| s.start))];
        let line = before.rsplit('\n').next().unwrap_or_default();
        format!("{}:{}", before.matches('\n').count() + 1, line.chars().count() + 1)
    };
    let document = Document::parse(text).map_err(|e| format!("{}: {}", at(e.span()), one_line(e.message())))?;
    let docs = Settings::docs();
    let mut flags = Vec::new();
    for (key, item) in document.iter() {
        let span = document.key(key).and_then(|k| k.span()).or_else(|| item.span());
        if !docs.iter().any(|(known, _)| known == key) {
            let hint = nearest(key, docs.iter().map(|(known, _)| known.as_str()));
            return Err(format!("{}: unknown key \"{}\": {hint}", at(span), key.escape_debug()));
        }
        let place = at(item.span());
        let Some(value) = scalar(item) else {
            return Err(format!("{place}: {key} takes a number, a string, or true or false"));
        };
        let flag = format!("--{}={value}", key.replace('_', "-"));
        // Each by itself, so that the place of a refusal is known.
        Settings::from_flags([&flag]).map_err(|e| format!("{place}: {key} is wrong: {e}"))?;
        flags.push(flag);
    }
    Settings::from_flags(&flags)
}

fn scalar(item: &Item) -> Option<String> {
    match item.as_value()? {
        Value::Integer(v) => Some(v.value().to_string()),
        Value::Float(v) => Some(v.value().to_string()),
        Value::String(v) => Some(v.value().clone()),
        Value::Boolean(v) => Some(if *v.value() { "on".into() } else { "off".into() }),
        _ => None,
    }
}

fn one_line(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join(", ")
}

/// "did you mean ...?", or all names if none is near.
pub fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    let score = |name: &str| strsim::jaro(wrong, name);
    match names.clone().max_by(|a, b| score(a).total_cmp(&score(b))).filter(|name| score(name) > 0.7) {
        Some(name) => format!("did you mean \"{name}\"?"),
        None => format!("known are {}", names.collect::<Vec<_>>().join(", ")),
    }
}

/// Write the tunables into the file at `path`; all else in it stays as it is, comments too.
///
/// # Errors
/// If it has wrong content already (then it is left alone), or cannot be written.
pub fn save(path: &Path, tunables: Tunables) -> Result<()> {
    let old = match text(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => String::new(),
        other => other.with_context(|| format!("{} cannot be read", path.display()))?,
    };
    let wrong = |e: String| failure(Status::Usage, format!("{}:{e} (the file is left as it is)", path.display()));
    parse(&old).map_err(wrong)?;
    let mut document: DocumentMut = old.parse().context("parsed a moment ago")?;
    for (tunable, value) in TUNABLES.iter().zip(tunables.values()) {
        let mut value = Value::from(i64::from(value));
        if let Some(old) = document.get(tunable.name).and_then(Item::as_value) {
            *value.decor_mut() = old.decor().clone();
        }
        document[tunable.name] = Item::Value(value);
    }
    replace(path, &document.to_string()).with_context(|| format!("{} cannot be written", path.display()))
}

/// Put `text` in the place of the file at `path`: readers see the old one or the new one, never a part.
pub fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let beside = Path::new(&beside);
    let written = std::fs::OpenOptions::new().write(true).create_new(true).open(beside).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        std::fs::rename(beside, path)
    });
    if written.is_err() {
        let _ = std::fs::remove_file(beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ReschedBestIdle;
    use proptest::prelude::*;

    #[test]
    fn every_key_is_optional_and_named_as_its_flag() {
        assert!(parse("").is_ok_and(|s| s.rr_interval_ms.is_none()));
        let s = parse(
            "# mine\nrr_interval_ms = 3\nstats = 0.5\nresched_best_idle = \"next-ne-prev\"\npublic_status = true",
        )
        .expect("right");
        assert_eq!((s.rr_interval_ms, s.resched_best_idle), (Some(3), Some(ReschedBestIdle::NextNePrev)));
        assert_eq!(s.stats, Some(std::time::Duration::from_millis(500)));
        assert_eq!(s.public_status, Some(crate::cli::Switch::On));
    }

    #[test]
    fn the_example_that_is_installed_has_every_key_and_is_right() {
        let example = include_str!("../contrib/scx_vrq.toml");
        let text =
            example.lines().filter_map(|l| l.strip_prefix('#').filter(|l| !l.starts_with(' '))).collect::<Vec<_>>();
        let keys: Vec<&str> = text.iter().filter_map(|l| l.split_once(" = ").map(|(key, _)| key)).collect();
        assert_eq!(keys, Settings::docs().iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>());
        assert!(parse(&text.join("\n")).is_ok_and(|s| s.rr_interval_ms == Some(6)), "{text:?}");
    }

    #[test]
    fn wrong_content_is_refused_with_line_and_column() {
        for (text, wanted) in [
            (
                "rr_interval_ms = 6\nrr_intervall_ms = 3",
                "2:1: unknown key \"rr_intervall_ms\": did you mean \"rr_interval_ms\"?",
            ),
            ("zzz = 1", "known are rr_interval_ms, "),
            ("\n  rr_interval_ms = 0", "2:20: rr_interval_ms is wrong: "),
            ("rr_interval_ms = 1001", "1..=1000"),
            ("rr_interval_ms = \"six\"", "1:18: "),
            ("rr_interval_ms = [6]", "1:18: rr_interval_ms takes a number"),
            ("[rr_interval_ms]\nx = 1", "1:1: rr_interval_ms takes a number"),
            ("idle_fast_path = \"maybe\"", "1:18: "),
            ("rr_interval_ms = 6\nmax_wait_ms =", "2:14: "),
            ("rr_interval_ms = 6\nrr_interval_ms = 7", "2:1: duplicate key"),
            ("config = \"/etc/other\"", "1:1: unknown key"),
        ] {
            let err = parse(text).expect_err(text);
            assert!(err.contains(wanted) && err.lines().count() == 1, "{text}: {err}");
        }
    }

    #[test]
    fn the_column_counts_characters() {
        assert!(parse("stats = 1\nkconfig = \"größe\" x").is_err_and(|e| e.starts_with("2:19: ")));
    }

    #[test]
    fn saving_keeps_comments_and_other_keys_and_can_be_read_again() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("scx_vrq.toml");
        let new = Tunables { rr_interval_ms: 3, max_wait_ms: 200 };
        save(&path, new).expect("a new file");
        assert_eq!(std::fs::read_to_string(&path).expect("it"), "rr_interval_ms = 3\nmax_wait_ms = 200\n");
        std::fs::write(&path, "# mine\nrr_interval_ms = 6 # ms\nstats = 1\n").expect("it");
        save(&path, new).expect("an old file");
        let text = std::fs::read_to_string(&path).expect("it");
        assert_eq!(text, "# mine\nrr_interval_ms = 3 # ms\nstats = 1\nmax_wait_ms = 200\n");
        std::fs::write(&path, "rr = 6\n").expect("it");
        assert!(save(&path, new).is_err());
        assert_eq!(std::fs::read_to_string(&path).expect("it"), "rr = 6\n");
        assert_eq!(std::fs::read_dir(dir.path()).expect("it").count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_file_that_never_ends_is_refused() {
        assert!(read(Some(Path::new("/dev/zero"))).is_err_and(|e| format!("{e}").contains("larger than 64 KiB")));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-z_\\[\\]=\"'#.0-9\u{20ac} \n\\\\-]{0,80}") {
            let _ = parse(&text);
        }

        #[test]
        fn any_value_of_a_key_is_read_or_refused(value in ".{0,40}") {
            let _ = parse(&format!("rr_interval_ms = {value}"));
        }
    }
}
