//! What `--scheduler` may say: the kernel's own, scx_vrq with settings, or any other by its command.

use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Settings that may follow `vrq:`, with the flag of scx_vrq that each stands for.
const VRQ_SETTINGS: [(&str, &str); 3] = [
    ("rr_interval", "--rr-interval-ms"),
    ("resched_best_idle", "--resched-best-idle"),
    ("idle_fast_path", "--idle-fast-path"),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerSpec {
    /// As the user wrote it; the name in every table.
    pub name: String,
    pub kind: SchedulerKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedulerKind {
    /// Whatever the kernel runs while no sched_ext scheduler is loaded.
    KernelDefault,
    /// This very program, with these flags.
    Vrq { flags: Vec<String> },
    /// Another scheduler: program and arguments.
    Command { argv: Vec<String> },
}

impl SchedulerSpec {
    /// `default`, `vrq`, `vrq:KEY=VALUE[,KEY=VALUE...]`, or a command line split as a shell would.
    pub fn parse(text: &str) -> Result<SchedulerSpec> {
        let text = text.trim();
        let kind = match text {
            "default" => SchedulerKind::KernelDefault,
            "vrq" => SchedulerKind::Vrq { flags: Vec::new() },
            _ => match text.strip_prefix("vrq:") {
                Some(settings) => SchedulerKind::Vrq { flags: vrq_flags(settings)? },
                None => SchedulerKind::Command { argv: command(text)? },
            },
        };
        Ok(SchedulerSpec { name: text.to_string(), kind })
    }
}

fn vrq_flags(settings: &str) -> Result<Vec<String>> {
    let mut flags = Vec::new();
    for setting in settings.split(',') {
        let (key, value) =
            setting.split_once('=').with_context(|| format!("vrq:{settings}: {setting:?} is not KEY=VALUE"))?;
        let (_, flag) = VRQ_SETTINGS.iter().find(|(known, _)| *known == key).with_context(|| {
            format!("vrq:{settings}: no setting {key:?}; there are {}", VRQ_SETTINGS.map(|(k, _)| k).join(", "))
        })?;
        ensure!(!value.is_empty(), "vrq:{settings}: {key} has no value");
        flags.extend([flag.to_string(), value.to_string()]);
    }
    Ok(flags)
}

fn command(text: &str) -> Result<Vec<String>> {
    let argv = shlex::split(text).with_context(|| format!("scheduler {text:?}: a quote is not closed"))?;
    let Some(program) = argv.first() else {
        bail!("a scheduler has no name: say default, vrq, or a command");
    };
    if find_program(program).is_none() {
        bail!("scheduler {text:?} is neither default, nor vrq, nor a command that can be found");
    }
    Ok(argv)
}

/// Where a program is, as the shell would find it; None if it is nowhere.
pub fn find_program(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| is_executable(path));
    }
    let path =
        std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"));
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_told_apart() {
        let kind = |text| SchedulerSpec::parse(text).expect(text).kind;
        assert_eq!(kind("default"), SchedulerKind::KernelDefault);
        assert_eq!(kind("vrq"), SchedulerKind::Vrq { flags: vec![] });
        assert_eq!(
            kind("vrq:rr_interval=2,resched_best_idle=next-ne-prev"),
            SchedulerKind::Vrq {
                flags: ["--rr-interval-ms", "2", "--resched-best-idle", "next-ne-prev"].map(String::from).into()
            }
        );
        assert_eq!(kind("sh -c 'a b'"), SchedulerKind::Command { argv: ["sh", "-c", "a b"].map(String::from).into() });
    }

    #[test]
    fn what_cannot_be_meant_is_refused_in_one_sentence() {
        for (text, reason) in [
            ("", "no name"),
            ("vrq:", "not KEY=VALUE"),
            ("vrq:rr_interval", "not KEY=VALUE"),
            ("vrq:slice=3", "no setting \"slice\""),
            ("vrq:rr_interval=", "no value"),
            ("scx_'", "quote"),
            ("no-such-scheduler-here -x", "nor a command that can be found"),
        ] {
            let error = format!("{:#}", SchedulerSpec::parse(text).expect_err(text));
            assert!(error.contains(reason), "{text:?}: {error}");
            assert!(!error.contains('\n'));
        }
    }
}
