//! What a test changes in the guest: processes, cgroups, CPUs, files of /proc and /sys. Undone when dropped.

use crate::harness::*;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// A child process that counts its rounds on a page that it shares with us. Dropped: killed.
pub struct Proc {
    pid: i32,
    page: *mut AtomicU64,
}

impl Proc {
    /// One that never sleeps.
    pub fn hog() -> Self {
        Self::fork(|rounds| {
            loop {
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        })
    }

    /// `run` may only make system calls: other threads of ours may have held a lock.
    pub fn fork(run: impl FnOnce(&AtomicU64)) -> Self {
        // SAFETY: a shared page that is unmapped only after the child has ended; zero is a value of an AtomicU64.
        unsafe {
            let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
            let page = libc::mmap(std::ptr::null_mut(), size_of::<AtomicU64>(), prot, flags, -1, 0);
            assert_ne!(page, libc::MAP_FAILED);
            let page = page.cast::<AtomicU64>();
            let pid = libc::fork();
            assert!(pid >= 0, "fork");
            if pid == 0 {
                run(&*page);
                libc::_exit(0);
            }
            Self { pid, page }
        }
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    pub fn rounds(&self) -> u64 {
        // SAFETY: the page is mapped as long as we are.
        unsafe { &*self.page }.load(Ordering::Relaxed)
    }

    pub fn assert_alive(&self) {
        let before = self.rounds();
        wait_until("the process has run again", || self.rounds() > before);
    }

    /// It does not get on while `time` passes.
    pub fn assert_still(&self, time: std::time::Duration) {
        let before = self.rounds();
        std::thread::sleep(time);
        assert_eq!(self.rounds(), before, "it ran");
    }
}

impl Drop for Proc {
    fn drop(&mut self) {
        // SAFETY: our own child, not waited for yet, and the page that it shared with us.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
            libc::munmap(self.page.cast(), size_of::<AtomicU64>());
        }
    }
}

/// Two tasks that wake each other over pipes until dropped.
pub struct PingPong(pub Vec<Proc>);

impl PingPong {
    pub fn start() -> Self {
        let pipe = || {
            let mut ends = [0; 2];
            // SAFETY: room for two descriptors.
            assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
            ends
        };
        let (a, b) = (pipe(), pipe());
        let player = |from: i32, to: i32, serves: bool| {
            Proc::fork(move |rounds| {
                let mut byte = 0u8;
                // SAFETY: our descriptors and one byte of ours; no lock is taken.
                unsafe {
                    if serves {
                        libc::write(to, (&raw const byte).cast(), 1);
                    }
                    while libc::read(from, (&raw mut byte).cast(), 1) == 1 {
                        rounds.fetch_add(1, Ordering::Relaxed);
                        libc::write(to, (&raw const byte).cast(), 1);
                    }
                }
            })
        };
        let players = vec![player(a[0], b[1], false), player(b[0], a[1], true)];
        // SAFETY: the players have their own.
        a.iter().chain(&b).for_each(|fd| unsafe { assert_eq!(libc::close(*fd), 0) });
        Self(players)
    }
}

/// A file of /proc or /sys with other content.
pub struct Setting {
    path: String,
    before: String,
}

impl Setting {
    pub fn new(path: &str, value: &str) -> Self {
        let before = read(path);
        // Of a choice the kernel marks what is chosen: "full (lazy)".
        let before =
            before.split_once('(').and_then(|(_, b)| b.split_once(')')).map_or(before.clone(), |(b, _)| b.into());
        fs::write(path, value).unwrap_or_else(|e| panic!("{path}: {e}"));
        Self { path: path.into(), before }
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = fs::write(&self.path, &self.before);
    }
}

/// A cgroup with the controllers cpuset, memory and pids. Dropped: its processes are killed.
pub struct Cgroup {
    path: String,
}

impl Cgroup {
    pub fn new(name: &str) -> Self {
        let root = "/sys/fs/cgroup";
        fs::write(format!("{root}/cgroup.subtree_control"), "+cpuset +memory +pids").expect("controllers");
        let path = format!("{root}/{name}");
        fs::create_dir(&path).expect("a new cgroup");
        Self { path }
    }

    pub fn set(&self, file: &str, value: &str) {
        fs::write(format!("{}/{file}", self.path), value).unwrap_or_else(|e| panic!("{file}: {e}"));
    }

    pub fn get(&self, file: &str) -> String {
        read(&format!("{}/{file}", self.path))
    }

    pub fn add(&self, process: &Proc) {
        self.set("cgroup.procs", &process.pid().to_string());
    }

    /// Kill what is in it and wait until it is empty.
    pub fn kill(&self) {
        self.set("cgroup.kill", "1");
        wait_until("the cgroup is empty", || self.get("cgroup.events").contains("populated 0"));
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::write(format!("{}/cgroup.freeze", self.path), "0");
        let _ = fs::write(format!("{}/cgroup.kill", self.path), "1");
        wait_until("the cgroup is gone", || fs::remove_dir(&self.path).is_ok());
    }
}

/// CPUs that are taken away and brought back. Dropped: all are back. CPU 0 stays.
pub struct Hotplug {
    cpus: Vec<usize>,
}

impl Hotplug {
    pub fn new() -> Self {
        Self { cpus: online().split_off(1) }
    }

    /// The CPUs that can go: all that were online at the start, but CPU 0.
    pub fn cpus(&self) -> &[usize] {
        &self.cpus
    }

    pub fn set(&self, cpu: usize, online: bool) {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/online");
        fs::write(&path, if online { "1" } else { "0" }).unwrap_or_else(|e| panic!("{path}: {e}"));
    }
}

impl Drop for Hotplug {
    fn drop(&mut self) {
        for cpu in &self.cpus {
            let _ = fs::write(format!("/sys/devices/system/cpu/cpu{cpu}/online"), "1");
        }
    }
}

/// scx_vrq on a machine where these folders are empty.
pub fn without(paths: &[&str]) -> Command {
    mounted(paths.iter().map(|path| format!("if [ -d {path} ]; then mount -t tmpfs none {path}; fi")).collect())
}

/// scx_vrq on a machine where `path` has this content.
pub fn with_file(path: &str, content: &[u8]) -> Command {
    let other = "/dev/shm/other";
    fs::write(other, content).expect("a file");
    mounted(vec![format!("mount --bind {other} {path}")])
}

fn mounted(mounts: Vec<String>) -> Command {
    let script = ["mount --make-rprivate /".to_string()].into_iter().chain(mounts).collect::<Vec<_>>().join(" && ");
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{script} && exec {BIN}")]);
    // SAFETY: unshare is a plain system call.
    unsafe {
        command.pre_exec(|| match libc::unshare(libc::CLONE_NEWNS) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        })
    };
    command
}

/// scx_vrq under another name: another scheduler, as far as anyone can see.
pub fn stranger(name: &[u8; 3]) -> String {
    let mut bytes = fs::read(BIN).expect("scx_vrq");
    // In the BPF object: `.name = "vrq"` in the 128 bytes of sched_ext_ops.
    let ours = [b"vrq".as_slice(), &[0; 100]].concat();
    let at = bytes.windows(ours.len()).position(|w| w == ours).expect("the scheduler's name");
    bytes[at..at + 3].copy_from_slice(name);
    let path = format!("/dev/shm/scx-{}", String::from_utf8_lossy(name));
    fs::write(&path, bytes).expect("a copy");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("mode");
    path
}
