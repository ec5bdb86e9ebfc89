//! What a reader of the results has to know of the machine: where it ran, on what, with which versions.

use serde::{Deserialize, Serialize};
use std::fs;
use std::process::Command;
use std::time::SystemTime;

/// Texts as the machine gives them; empty where it does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// "this machine", or "a virtual machine" with how it was started.
    pub place: String,
    /// UTC, RFC 3339.
    pub date: String,
    pub kernel: String,
    pub cpu_model: String,
    /// CPUs online at the start.
    pub cpus: u32,
    /// Sockets, cores of a socket, threads of a core: "1 socket, 4 cores, 1 thread".
    pub topology: String,
    pub memory_mib: u64,
    /// What runs the virtual machine's CPUs: `kvm`, `tcg` (emulation), `icount` (emulation whose clock
    /// counts instructions); empty on this machine.
    pub accel: String,
    pub scx_vrq: String,
    pub compiler: String,
    /// The command line that was given.
    pub command: Vec<String>,
}

impl Facts {
    pub fn gather(place: &str) -> Facts {
        let cpuinfo = read("/proc/cpuinfo");
        let cpu_model = field(&cpuinfo, "model name");
        Facts {
            place: place.to_string(),
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            kernel: read("/proc/sys/kernel/osrelease"),
            // An emulated machine that was not started by this program.
            accel: if cpu_model.contains("TCG") { "tcg".to_string() } else { String::new() },
            cpu_model,
            cpus: super::cpus::online(),
            topology: topology(&cpuinfo),
            memory_mib: field(&read("/proc/meminfo"), "MemTotal")
                .split(' ')
                .next()
                .and_then(|kib| kib.parse::<u64>().ok())
                .unwrap_or(0)
                / 1024,
            scx_vrq: version(),
            compiler: first_line_of("cc", "--version"),
            command: std::env::args().collect(),
        }
    }

    /// "Linux 7.3.4 on 4 CPUs (QEMU TCG CPU)"
    pub fn machine(&self) -> String {
        format!("Linux {} on {} CPUs ({}; {})", self.kernel, self.cpus, self.topology, self.cpu_model)
    }
}

/// Version of this program, with its commit where the build knew it.
fn version() -> String {
    match option_env!("VRQ_GIT_SHA") {
        None | Some("") => env!("CARGO_PKG_VERSION").to_string(),
        Some(sha) => format!("{}-g{sha}", env!("CARGO_PKG_VERSION")),
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_string()
}

/// First value of "name : value" in the files of /proc.
fn field(text: &str, name: &str) -> String {
    values(text, name).next().unwrap_or_default().to_string()
}

fn values<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines().filter_map(move |line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}

fn topology(cpuinfo: &str) -> String {
    let number = |name| field(cpuinfo, name).parse::<usize>().unwrap_or(1);
    let mut sockets: Vec<_> = values(cpuinfo, "physical id").collect();
    sockets.sort_unstable();
    sockets.dedup();
    let cores = number("cpu cores");
    let threads = number("siblings") / cores.max(1);
    [(sockets.len().max(1), "socket"), (cores, "core"), (threads.max(1), "thread")]
        .map(|(n, what)| format!("{n} {what}{}", if n == 1 { "" } else { "s" }))
        .join(", ")
}

fn first_line_of(program: &str, argument: &str) -> String {
    let output = Command::new(program).arg(argument).output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).lines().next().unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topology_is_counted_from_cpuinfo() {
        let cpu = |id: u32| format!("physical id\t: {id}\nsiblings\t: 4\ncpu cores\t: 2\n\n");
        assert_eq!(topology(&(cpu(0) + &cpu(1))), "2 sockets, 2 cores, 2 threads");
        assert_eq!(topology(""), "1 socket, 1 core, 1 thread");
    }

    #[test]
    fn facts_of_this_machine_are_there() {
        let facts = Facts::gather("this machine");
        assert!(facts.cpus > 0 && facts.memory_mib > 0 && facts.date.ends_with('Z'));
        assert!(!facts.kernel.is_empty());
    }
}
