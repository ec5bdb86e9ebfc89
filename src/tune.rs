//! What can be changed while scx_vrq schedules, and the text that changes it.

use crate::cli::Settings;
use crate::config::nearest;
use crate::policy::{
    VRQ_MAX_WAIT_DFL_MS, VRQ_MAX_WAIT_MAX_MS, VRQ_MAX_WAIT_MIN_MS, VRQ_RR_INTERVAL_DFL_MS, VRQ_RR_INTERVAL_MAX_MS,
    VRQ_RR_INTERVAL_MIN_MS,
};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// One tunable. Its name is that of its flag and of its key in the configuration file.
pub struct Tunable {
    /// With its unit last.
    pub name: &'static str,
    /// Without a flag and without a file.
    pub default: u32,
    /// The least value that is taken.
    pub min: u32,
    /// The largest value that is taken.
    pub max: u32,
    /// Of the value.
    pub unit: &'static str,
}

/// All of them, in the order of [`Tunables`].
pub const TUNABLES: [Tunable; 2] = [
    Tunable {
        name: "rr_interval_ms",
        default: VRQ_RR_INTERVAL_DFL_MS,
        min: VRQ_RR_INTERVAL_MIN_MS,
        max: VRQ_RR_INTERVAL_MAX_MS,
        unit: "ms",
    },
    Tunable {
        name: "max_wait_ms",
        default: VRQ_MAX_WAIT_DFL_MS,
        min: VRQ_MAX_WAIT_MIN_MS,
        max: VRQ_MAX_WAIT_MAX_MS,
        unit: "ms",
    },
];

/// The values, each in its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunables {
    /// Time slice.
    pub rr_interval_ms: u32,
    /// The promised longest wait.
    pub max_wait_ms: u32,
}

impl Default for Tunables {
    fn default() -> Self {
        Self { rr_interval_ms: VRQ_RR_INTERVAL_DFL_MS, max_wait_ms: VRQ_MAX_WAIT_DFL_MS }
    }
}

impl Tunables {
    fn slots(&mut self) -> [&mut u32; TUNABLES.len()] {
        [&mut self.rr_interval_ms, &mut self.max_wait_ms]
    }

    /// The values in the order of [`TUNABLES`].
    pub fn values(mut self) -> [u32; TUNABLES.len()] {
        self.slots().map(|v| *v)
    }

    /// These with changes, each `NAME=VALUE`; the unit may be left out of the name. All of them or none.
    ///
    /// # Errors
    /// The first word that is no tunable, no number, out of range, or there twice.
    pub fn with<S: AsRef<str>>(mut self, words: &[S]) -> Result<Self, String> {
        let mut set = [false; TUNABLES.len()];
        for word in words.iter().map(AsRef::as_ref) {
            let Some((name, value)) = word.split_once('=') else {
                return Err(format!("\"{}\" is not of the form NAME=VALUE", shown(word)));
            };
            let index = find(name)?;
            let Tunable { name, min, max, unit, .. } = TUNABLES[index];
            let value = match value.parse::<u32>() {
                Ok(v) if (min..=max).contains(&v) => v,
                _ => return Err(format!("{name} is \"{}\": it takes {min} to {max} {unit}", shown(value))),
            };
            if std::mem::replace(&mut set[index], true) {
                return Err(format!("{name} is there twice"));
            }
            *self.slots()[index] = value;
        }
        Ok(self)
    }
}

fn find(name: &str) -> Result<usize, String> {
    let wanted = name.replace('-', "_");
    let is = |t: &Tunable| wanted == t.name || t.name.strip_suffix("_ms").is_some_and(|short| wanted == short);
    TUNABLES.iter().position(is).ok_or_else(|| {
        let hint = nearest(&wanted, TUNABLES.iter().map(|t| t.name));
        format!("there is no tunable \"{}\": {hint}", shown(name))
    })
}

/// So much of a hostile word as an error repeats.
fn shown(word: &str) -> String {
    word.chars().take(40).flat_map(char::escape_debug).collect()
}

/// All tunables for people; without a scheduler there are no values.
pub fn table(now: Option<Tunables>) -> String {
    let mut text = format!("{:<15} {:>6} {:>8}  {:<14} meaning\n", "name", "value", "default", "range");
    let docs = Settings::docs();
    for (i, t) in TUNABLES.iter().enumerate() {
        let value = now.map_or_else(|| "-".into(), |now| now.values()[i].to_string());
        let range = format!("{}..{} {}", t.min, t.max, t.unit);
        let doc = docs.iter().find(|(name, _)| name == t.name).map_or("", |(_, doc)| doc);
        let doc = doc.split_once(['.', ';']).map_or(doc, |(first, _)| first);
        let _ = writeln!(text, "{:<15} {value:>6} {:>8}  {range:<14} {doc}", t.name, t.default);
    }
    text
}

/// What a change did, one line for each tunable that has another value now.
pub fn changes(old: Tunables, new: Tunables) -> String {
    let mut text = String::new();
    for ((t, old), new) in TUNABLES.iter().zip(old.values()).zip(new.values()).filter(|((_, o), n)| o != n) {
        let _ = writeln!(text, "{}: {old} -> {new} {}", t.name, t.unit);
    }
    if text.is_empty() { "nothing changed: these are the values already\n".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Tunables = Tunables { rr_interval_ms: 6, max_wait_ms: 4000 };

    #[test]
    fn a_change_takes_names_with_and_without_the_unit_and_leaves_the_rest() {
        assert_eq!(NOW.with(&["rr_interval=3"]), Ok(Tunables { rr_interval_ms: 3, ..NOW }));
        assert_eq!(
            NOW.with(&["max-wait-ms=100", "rr_interval_ms=1000"]),
            Ok(Tunables { rr_interval_ms: 1000, max_wait_ms: 100 })
        );
    }

    #[test]
    fn a_wrong_change_is_refused_with_the_name_and_what_it_takes() {
        for (word, wanted) in [
            ("rr_interval=0", "1 to 1000"),
            ("rr_interval=1001", "1 to 1000"),
            ("rr_interval=-1", "1 to 1000"),
            ("rr_interval=", "1 to 1000"),
            ("max_wait=4294967396", "100 to 15000"),
            ("rr_intervall=3", "rr_interval_ms"),
            ("rr_interval", "NAME=VALUE"),
            ("=3", "rr_interval_ms"),
        ] {
            let err = NOW.with(&["max_wait=200", word]).expect_err(word);
            assert!(err.contains(wanted), "{word}: {err}");
        }
        assert!(NOW.with(&["rr_interval=3", "rr_interval_ms=4"]).is_err_and(|e| e.contains("twice")));
    }

    #[test]
    fn the_table_has_value_default_range_and_the_flags_own_words() {
        let text = table(Some(Tunables { rr_interval_ms: 3, ..NOW }));
        let line = text.lines().find(|l| l.starts_with("rr_interval_ms")).expect("its line");
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[1..5], ["3", "6", "1..1000", "ms"], "{line}");
        assert!(line.contains("Time slice"), "{line}");
        assert!(table(None).lines().skip(1).all(|l| l.split_whitespace().nth(1) == Some("-")));
    }

    #[test]
    fn changes_names_old_and_new() {
        assert_eq!(changes(NOW, Tunables { rr_interval_ms: 3, ..NOW }), "rr_interval_ms: 6 -> 3 ms\n");
    }

    proptest! {
        #[test]
        fn any_words_give_values_in_range_or_a_short_refusal(words in proptest::collection::vec(".{0,80}", 0..4)) {
            match NOW.with(&words) {
                Ok(new) => for (t, v) in TUNABLES.iter().zip(new.values()) {
                    prop_assert!((t.min..=t.max).contains(&v));
                },
                Err(e) => prop_assert!(e.len() < 600, "{e}"),
            }
        }
    }
}
