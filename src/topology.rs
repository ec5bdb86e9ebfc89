//! Which CPUs are near which: the masks that the BPF side walks for the nearest idle CPU.

use crate::policy::{VRQ_CPU_WORDS, VRQ_NR_DISTANCES, vrq_topology};
use scx_utils::{Cpu, Topology};
use std::sync::Arc;

/// The machine as scx_vrq sees it.
pub struct Machine {
    /// One more than the highest possible CPU number.
    pub nr_cpu_ids: usize,
    /// CPUs that are online now.
    pub online: Vec<usize>,
    /// "4 CPUs, 1 socket, 1 cache, SMT" for the line at start.
    pub shape: String,
    near: Vec<vrq_topology>,
}

impl Machine {
    /// Read from sysfs.
    ///
    /// # Errors
    /// If sysfs does not describe the CPUs.
    pub fn read() -> anyhow::Result<Self> {
        Ok(Self::from_topology(&Topology::new()?, *scx_utils::NR_CPU_IDS))
    }

    /// Of a topology; CPUs that it does not have are near to nobody.
    pub fn from_topology(topo: &Topology, nr_cpu_ids: usize) -> Self {
        let cpus: Vec<&Arc<Cpu>> = topo.all_cpus.values().collect();
        let mut near =
            vec![vrq_topology { mask: [[0; VRQ_CPU_WORDS as usize]; VRQ_NR_DISTANCES as usize] }; nr_cpu_ids];
        for cpu in &cpus {
            for other in cpus.iter().filter(|o| o.id != cpu.id) {
                let levels = [other.core_id == cpu.core_id, other.llc_id == cpu.llc_id, other.node_id == cpu.node_id];
                for (level, _) in levels.iter().enumerate().filter(|(_, same)| **same) {
                    near[cpu.id].mask[level][other.id / 64] |= 1 << (other.id % 64);
                }
            }
        }
        let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let sockets = cpus.iter().map(|c| c.package_id).collect::<std::collections::BTreeSet<_>>().len();
        let shape = format!(
            "{}, {}, {}{}",
            plural(cpus.len(), "CPU"),
            plural(sockets, "socket"),
            plural(topo.all_llcs.len(), "last-level cache"),
            if topo.smt_enabled { ", SMT" } else { "" }
        );
        Self { nr_cpu_ids, online: cpus.iter().map(|c| c.id).collect(), shape, near }
    }

    /// The masks of one CPU, for the `topology` map.
    pub fn near(&self, cpu: usize) -> &vrq_topology {
        &self.near[cpu]
    }
}
