//! What else went on in the machine during a run: CPU time of others, time stolen by the hypervisor,
//! and the clock rate.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// One reading of /proc/stat: seconds over all CPUs since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTimes {
    /// User, nice, system, interrupts.
    pub busy_s: f64,
    /// Ready to run while the hypervisor gave the CPU to somebody else.
    pub steal_s: f64,
}

/// How far a run can be believed. Seconds over all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    pub steal_s: f64,
    /// CPU time that the workload cannot account for: other programs, the scheduler's own process,
    /// interrupts. Never negative.
    pub other_cpu_s: f64,
    /// Mean clock rate of the CPUs at the end of the run; None where the kernel does not tell.
    pub mhz: Option<f64>,
}

impl CpuTimes {
    pub fn read() -> Result<CpuTimes> {
        let text = fs::read_to_string("/proc/stat").context("/proc/stat cannot be read")?;
        // SAFETY: sysconf takes no pointers.
        let hz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        parse(&text, hz.max(1) as f64)
    }

    /// `workload_s`: user and system time of the workload between the two readings.
    pub fn noise_since(&self, before: &CpuTimes, workload_s: f64) -> Noise {
        Noise {
            steal_s: (self.steal_s - before.steal_s).max(0.0),
            other_cpu_s: (self.busy_s - before.busy_s - workload_s).max(0.0),
            mhz: None,
        }
    }
}

fn parse(text: &str, hz: f64) -> Result<CpuTimes> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu ")).context("/proc/stat has no line of all CPUs")?;
    let ticks: Vec<f64> = line.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal ...
    let [user, nice, system, _, _, irq, softirq, steal, ..] = ticks[..] else {
        anyhow::bail!("/proc/stat has a line of all CPUs with {} fields", ticks.len());
    };
    Ok(CpuTimes { busy_s: (user + nice + system + irq + softirq) / hz, steal_s: steal / hz })
}

/// Mean of the CPUs' clock rates now, in MHz.
pub fn mean_mhz() -> Option<f64> {
    mean_mhz_below(Path::new("/sys/devices/system/cpu"))
}

fn mean_mhz_below(dir: &Path) -> Option<f64> {
    let khz: Vec<f64> = fs::read_dir(dir)
        .ok()?
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path().join("cpufreq/scaling_cur_freq")).ok()?.trim().parse().ok())
        .collect();
    (!khz.is_empty()).then(|| khz.iter().sum::<f64>() / khz.len() as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_leaves_out_idle_and_waiting() {
        let times = parse("cpu  100 20 30 9999 888 4 6 50 7 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n", 100.0).expect("parses");
        assert_eq!(times, CpuTimes { busy_s: 1.6, steal_s: 0.5 });
        assert!(parse("cpu0 1 2 3\n", 100.0).is_err());
        assert!(parse("cpu  1 2 3\n", 100.0).is_err());
    }

    #[test]
    fn noise_is_what_the_workload_does_not_explain() {
        let before = CpuTimes { busy_s: 10.0, steal_s: 1.0 };
        let after = CpuTimes { busy_s: 15.0, steal_s: 1.25 };
        let noise = after.noise_since(&before, 4.5);
        assert_eq!((noise.steal_s, noise.other_cpu_s), (0.25, 0.5));
        assert_eq!(after.noise_since(&before, 5.5).other_cpu_s, 0.0);
    }

    #[test]
    fn clock_rates_are_averaged() {
        let dir = tempfile::tempdir().expect("tempdir");
        assert_eq!(mean_mhz_below(dir.path()), None);
        for (cpu, khz) in [("cpu0", "1000000\n"), ("cpu1", "3000000\n")] {
            let freq = dir.path().join(cpu).join("cpufreq");
            fs::create_dir_all(&freq).expect("mkdir");
            fs::write(freq.join("scaling_cur_freq"), khz).expect("write");
        }
        assert_eq!(mean_mhz_below(dir.path()), Some(2000.0));
    }
}
