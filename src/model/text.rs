//! The values of a workload as one writes them: the same text on the command line and in a file.

use fastrand::Rng;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

/// A value that is read from its text; a whole number in a file may stand without quotes.
trait Text: FromStr<Err = String> {
    /// What may stand there.
    fn allowed() -> String;
}

struct Visitor<T>(PhantomData<T>);

impl<T: Text> de::Visitor<'_> for Visitor<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&T::allowed())
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

/// serde's forms: read as `FromStr` does, written as `Display` does.
macro_rules! as_text {
    ($type:ty, $allowed:expr) => {
        impl Text for $type {
            fn allowed() -> String {
                $allowed.to_string()
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any(Visitor(PhantomData))
            }
        }
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }
    };
}

/// A whole number in its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole<const MIN: i64, const MAX: i64>(pub i64);

impl<const MIN: i64, const MAX: i64> FromStr for Whole<MIN, MAX> {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(number) if (MIN..=MAX).contains(&number) => Ok(Self(number)),
            _ => Err(format!("{text:?} is no whole number from {MIN} to {MAX}")),
        }
    }
}

impl<const MIN: i64, const MAX: i64> fmt::Display for Whole<MIN, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const MIN: i64, const MAX: i64> Text for Whole<MIN, MAX> {
    fn allowed() -> String {
        format!("a whole number from {MIN} to {MAX}")
    }
}

impl<'de, const MIN: i64, const MAX: i64> Deserialize<'de> for Whole<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Visitor(PhantomData))
    }
}

impl<const MIN: i64, const MAX: i64> Serialize for Whole<MIN, MAX> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

const SPAN: &str = "a time from 1us to 1h, such as 500us, 10ms or 2s";

/// A span of time in ns, 1 us to 1 h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub u64);

impl FromStr for Span {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match humantime::parse_duration(text) {
            Ok(span) if (Duration::from_micros(1)..=Duration::from_secs(3600)).contains(&span) => {
                Ok(Self(span.as_nanos() as u64))
            }
            _ => Err(format!("{text:?} is not {SPAN}")),
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        humantime::format_duration(Duration::from_nanos(self.0)).fmt(f)
    }
}

as_text!(Span, SPAN);

/// A span, or one at random between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    pub min: Span,
    pub max: Span,
}

impl Spread {
    pub fn pick(&self, rng: &mut Rng) -> u64 {
        rng.u64(self.min.0..=self.max.0)
    }
}

impl FromStr for Spread {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (min, max) = text.split_once("..").unwrap_or((text, text));
        let spread = Self { min: min.parse()?, max: max.parse()? };
        if spread.min > spread.max {
            return Err(format!("{text:?} has its ends the wrong way round: the shorter time comes first"));
        }
        Ok(spread)
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.min == self.max { self.min.fmt(f) } else { write!(f, "{}..{}", self.min, self.max) }
    }
}

as_text!(Spread, format!("{SPAN}, or two with .. between them"));

/// When slices end: at a tick, every so many ns, or exactly (0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick(pub u32);

const TICK: &str = "none, or a time from 100us to 100ms, such as 4ms";

impl FromStr for Tick {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<Span>() {
            _ if text == "none" => Ok(Self(0)),
            Ok(Span(ns @ 100_000..=100_000_000)) => Ok(Self(ns as u32)),
            _ => Err(format!("{text:?} is not {TICK}")),
        }
    }
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.0 == 0 { f.write_str("none") } else { Span(self.0.into()).fmt(f) }
    }
}

as_text!(Tick, TICK);

/// CPUs 0 to 63, bit by bit; never none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuList(pub u64);

const CPU_LIST: &str = "a list of CPUs from 0 to 63, such as 0,2-3";

impl FromStr for CpuList {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut mask = 0;
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            match (first.parse::<u32>(), last.parse::<u32>()) {
                (Ok(first), Ok(last)) if first <= last && last < 64 => (first..=last).for_each(|cpu| mask |= 1 << cpu),
                _ => return Err(format!("{text:?} is not {CPU_LIST}")),
            }
        }
        Ok(Self(mask))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let cpus: Vec<String> = (0..64).filter(|cpu| self.0 & 1 << cpu != 0).map(|cpu| cpu.to_string()).collect();
        f.write_str(&cpus.join(","))
    }
}

as_text!(CpuList, CPU_LIST);

/// A change of nice during the life of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renice {
    pub nice: Whole<-20, 19>,
    pub at: Span,
}

impl FromStr for Renice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (nice, at) = text.split_once('@').ok_or_else(|| format!("{text:?} is not NICE@TIME, such as 5@2s"))?;
        Ok(Self { nice: nice.parse()?, at: at.parse()? })
    }
}

impl fmt::Display for Renice {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}@{}", self.nice, self.at)
    }
}

as_text!(Renice, "NICE@TIME, such as 5@2s");

#[cfg(test)]
mod tests {
    use super::*;

    fn refused<T: FromStr<Err = String> + fmt::Debug>(text: &str) -> String {
        text.parse::<T>().expect_err(text)
    }

    #[test]
    fn what_is_printed_is_read_back() {
        assert_eq!("1ms..1s 500ms".parse::<Spread>().map(|s| s.to_string()), Ok("1ms..1s 500ms".into()));
        assert_eq!("0,2-3".parse::<CpuList>().map(|list| list.to_string()), Ok("0,2,3".into()));
        assert_eq!("-20@2s".parse::<Renice>().map(|renice| renice.to_string()), Ok("-20@2s".into()));
        assert_eq!(["none", "4ms"].map(|t| t.parse::<Tick>().map(|tick| tick.0)), [Ok(0), Ok(4_000_000)]);
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_says_what_is_allowed() {
        for text in ["", "0s", "5", "-1ms", "2h", "1ns", "9999999999999999999s", "ten ms"] {
            assert!(refused::<Span>(text).ends_with(SPAN), "{text}");
        }
        for text in ["", "64", "3-1", "a", "1,,2", "-1", "0-99999999999"] {
            assert!(refused::<CpuList>(text).ends_with(CPU_LIST), "{text}");
        }
        for text in ["20", "-21", "1.5", ""] {
            assert!(refused::<Whole<-20, 19>>(text).ends_with("from -20 to 19"), "{text}");
        }
        assert!(refused::<Tick>("1s").contains("100us to 100ms"));
        assert!(refused::<Spread>("2ms..1ms").contains("wrong way round"));
        assert!(refused::<Renice>("5").contains("NICE@TIME"));
    }
}
