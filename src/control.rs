//! The control socket: requests and answers, each a line of JSON, in scx_stats' protocol and at scx_stats' place, so
//! that its clients work. `{"req":"control","args":{"version":"1","command":"tune","set":"rr_interval_ms=3"}}`
//!
//! Types, metadata and client are scx_stats' own, its server is not: that one reads lines of any length, ends a
//! connection without an answer if it is no UTF-8, spins when descriptors run out, and does not know who asks.
//!
//! Limits: 64 connections, 16 of them for others than root; 64 KiB for a request; 5 s for the rest of one that has
//! begun, and for a client to read its answer. Each connection has a thread of its own, so that none waits for another,
//! and the scheduler's loop for none.

use crate::failure::Status;
use crate::stats::{self, Counters, Sample};
use anyhow::{Context, Result};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use scx_stats::prelude::*;
use scx_stats::{StatsRequest, StatsResponse};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Of the `control` requests. A request of another version is refused.
pub const VERSION: &str = "1";
/// Where scx_stats' clients look.
pub const SOCKET: &str = "/var/run/scx/root/stats";

const MAX_REQUEST: u64 = 64 << 10;
const MAX_CLIENTS: usize = 64;
const MAX_GUESTS: usize = 16;
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two requests of somebody who is not root, so that nobody keeps the loader busy.
const GUEST_PAUSE: Duration = Duration::from_millis(50);

/// Who is to schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Owner {
    /// The kernel's own scheduler; scx_vrq's process stays.
    Default,
    /// scx_vrq, with the counters and the tunables it had.
    Vrq,
}

/// What `control` can ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// How is it going?
    Status,
    /// Give the machine back and end.
    Stop,
    /// Give the machine to the other scheduler and stay.
    Switch(Owner),
    /// `NAME=VALUE` each; none: only tell.
    Tune(Vec<String>),
}

impl Request {
    /// From the arguments of a request.
    ///
    /// # Errors
    /// Another version, an unknown command or argument, one too many or too few.
    pub fn parse(args: &BTreeMap<String, String>) -> Result<Self, Refusal> {
        let get = |key: &str| args.get(key).map(String::as_str);
        if get("version") != Some(VERSION) {
            return Err(Refusal::new(libc::EPROTONOSUPPORT, format!("this scx_vrq speaks \"version\":\"{VERSION}\"")));
        }
        let (request, takes) = match (get("command"), get("to"), get("set")) {
            (Some("status"), ..) => (Self::Status, ""),
            (Some("stop"), ..) => (Self::Stop, ""),
            (Some("switch"), Some("default"), _) => (Self::Switch(Owner::Default), "to"),
            (Some("switch"), Some("vrq"), _) => (Self::Switch(Owner::Vrq), "to"),
            (Some("switch"), ..) => return Err(Refusal::wrong("switch wants \"to\":\"default\" or \"to\":\"vrq\"")),
            (Some("tune"), _, set) => {
                (Self::Tune(set.unwrap_or_default().split_whitespace().map(String::from).collect()), "set")
            }
            _ => return Err(Refusal::wrong("\"command\" is status, stop, switch or tune")),
        };
        match args.keys().find(|key| !["version", "command", takes].contains(&key.as_str())) {
            Some(_) => Err(Refusal::wrong("arguments are version and command, to for switch, set for tune")),
            None => Ok(request),
        }
    }

    /// The arguments that [`Request::parse`] reads.
    pub fn args(&self) -> Vec<(String, String)> {
        let (command, more) = match self {
            Self::Status => ("status", None),
            Self::Stop => ("stop", None),
            Self::Switch(Owner::Default) => ("switch", Some(("to", "default".into()))),
            Self::Switch(Owner::Vrq) => ("switch", Some(("to", "vrq".into()))),
            Self::Tune(words) => ("tune", Some(("set", words.join(" ")))),
        };
        let all = [("version", VERSION.into()), ("command", command.into())].into_iter().chain(more);
        all.map(|(key, value)| (key.to_string(), value)).collect()
    }

    fn changes_nothing(&self) -> bool {
        match self {
            Self::Status => true,
            Self::Tune(words) => words.is_empty(),
            Self::Stop | Self::Switch(_) => false,
        }
    }
}

/// Why a request is not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// As scx_stats' protocol has it.
    pub errno: i32,
    /// One sentence.
    pub why: String,
}

impl Refusal {
    /// Of a kind.
    pub fn new(errno: i32, why: impl Into<String>) -> Self {
        Self { errno, why: why.into() }
    }

    /// A wrong request.
    pub fn wrong(why: impl Into<String>) -> Self {
        Self::new(libc::EINVAL, why)
    }

    fn ending() -> Self {
        Self::new(libc::ESHUTDOWN, "scx_vrq is ending")
    }

    /// The exit status of a client that got it.
    pub fn status(errno: i32) -> Status {
        match errno {
            libc::EINVAL | libc::E2BIG => Status::Usage,
            libc::EPERM => Status::NotRoot,
            libc::EBUSY => Status::Busy,
            _ => Status::Failed,
        }
    }
}

/// What the scheduler's loop answers with.
pub type Answer = Result<Value, Refusal>;

/// A question to the scheduler's loop.
pub enum Ask {
    /// The counters.
    Sample(Sender<Sample>),
    /// A `control` request.
    Control(Request, Sender<Answer>),
}

/// The socket, as long as this lives.
pub struct Server {
    asks: Receiver<Ask>,
    inode: u64,
}

impl Server {
    /// Open it. Root may use it; `public`: everybody may read.
    ///
    /// # Errors
    /// If its directory or the socket cannot be made, or no thread.
    pub fn open(public: bool) -> Result<Self> {
        let path = Path::new(SOCKET);
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).with_context(|| format!("creating {dir:?}"))?;
        }
        match std::fs::remove_file(path) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e).with_context(|| format!("deleting {path:?}")),
            _ => {}
        }
        let listener = UnixListener::bind(path).with_context(|| format!("creating UNIX socket {path:?}"))?;
        let mode = if public { 0o666 } else { 0o600 };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        let inode = std::fs::metadata(path)?.ino();
        let (tx, asks) = unbounded();
        std::thread::Builder::new().name("control".into()).spawn(move || listen(&listener, &tx))?;
        Ok(Self { asks, inode })
    }

    /// What clients ask, to be received by the scheduler's loop.
    pub fn asks(&self) -> &Receiver<Ask> {
        &self.asks
    }

    /// Has another scheduler put its own socket in the place?
    pub fn is_displaced(&self) -> bool {
        std::fs::metadata(SOCKET).map(|m| m.ino()).ok() != Some(self.inode)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.is_displaced() {
            let _ = std::fs::remove_file(SOCKET);
        }
    }
}

fn listen(listener: &UnixListener, asks: &Sender<Ask>) {
    let (all, guests) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    loop {
        let Ok((stream, _)) = listener.accept() else {
            // Out of descriptors or memory: some time may help, spinning does not.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        let is_root = peer_is_root(&stream);
        let places =
            [Place::take(&all, MAX_CLIENTS), Place::take(&guests, if is_root { usize::MAX } else { MAX_GUESTS })];
        let mut client = Client { stream, asks: asks.clone(), is_root, last: None };
        if places.iter().any(Option::is_none) {
            let _ = client.reply(Err(Refusal::new(libc::EUSERS, "too many connections to scx_vrq")));
            continue;
        }
        // Without a thread for it the connection is closed.
        let _ = std::thread::Builder::new().name("client".into()).spawn(move || {
            let _places = places;
            // It has gone, or does not read.
            let _ = client.serve();
        });
    }
}

/// One of a limited number of places, given back when dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(taken: &Arc<AtomicUsize>, limit: usize) -> Option<Self> {
        let place = Self(taken.clone());
        (taken.fetch_add(1, Ordering::Relaxed) < limit).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn peer_is_root(stream: &UnixStream) -> bool {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: a socket of ours, and a buffer of the length that is given.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            std::ptr::from_mut(&mut peer).cast(),
            &mut len,
        )
    };
    result == 0 && peer.uid == 0
}

/// A connection, in its own thread.
struct Client {
    stream: UnixStream,
    asks: Sender<Ask>,
    is_root: bool,
    /// What `top` told last.
    last: Option<Counters>,
}

impl Client {
    fn serve(&mut self) -> std::io::Result<()> {
        let mut reader = BufReader::new(self.stream.try_clone()?);
        loop {
            self.stream.set_read_timeout(None)?;
            if reader.fill_buf()?.is_empty() {
                return Ok(());
            }
            self.stream.set_read_timeout(Some(PATIENCE))?;
            match read_request(&mut reader) {
                Ok(line) => {
                    let answer = self.answer(&line);
                    self.reply(answer)?;
                }
                // Where the next request begins is not known.
                Err(refusal) => return self.reply(Err(refusal)),
            }
            if !self.is_root {
                std::thread::sleep(GUEST_PAUSE);
            }
        }
    }

    fn reply(&mut self, answer: Answer) -> std::io::Result<()> {
        let (errno, value) = match answer {
            Ok(value) => (0, value),
            Err(refusal) => (refusal.errno, refusal.why.into()),
        };
        let mut line = serde_json::to_vec(&StatsResponse { errno, args: [("resp".to_string(), value)].into() })?;
        line.push(b'\n');
        self.stream.set_write_timeout(Some(PATIENCE))?;
        self.stream.write_all(&line)
    }

    fn answer(&mut self, line: &[u8]) -> Answer {
        let StatsRequest { req, args } =
            serde_json::from_slice(line).map_err(|e| Refusal::wrong(format!("this is no request: {e}")))?;
        match req.as_str() {
            "stats_meta" => json(&stats::meta().map(|m| (m.name.clone(), m)).into_iter().collect::<BTreeMap<_, _>>()),
            "stats" => self.stats(args.get("target").map_or("top", String::as_str)),
            "control" => {
                let request = Request::parse(&args)?;
                if !self.is_root && !request.changes_nothing() {
                    return Err(Refusal::new(libc::EPERM, "only root may change what scx_vrq does"));
                }
                self.ask(|to| Ask::Control(request, to))?
            }
            _ => Err(Refusal::wrong("\"req\" is stats, stats_meta or control")),
        }
    }

    fn stats(&mut self, target: &str) -> Answer {
        if !["top", "counters", "waits"].contains(&target) {
            return Err(Refusal::wrong("\"target\" is top, counters or waits"));
        }
        let now = self.ask(Ask::Sample)?;
        match target {
            "top" => {
                let last = self.last.replace(now.counters.clone());
                json(&now.counters.since(last.as_ref().unwrap_or(&now.counters)))
            }
            "counters" => json(&now.counters),
            _ => json(&now.waits),
        }
    }

    fn ask<T>(&self, question: impl FnOnce(Sender<T>) -> Ask) -> Result<T, Refusal> {
        let (to, answer) = bounded(1);
        self.asks.send(question(to)).map_err(|_| Refusal::ending())?;
        answer.recv().map_err(|_| Refusal::ending())
    }
}

fn json<T: serde::Serialize>(value: &T) -> Answer {
    serde_json::to_value(value).map_err(|e| Refusal::new(libc::EIO, e.to_string()))
}

/// A whole line.
fn read_request(reader: &mut impl BufRead) -> Result<Vec<u8>, Refusal> {
    let mut line = Vec::new();
    // An error is a peer that has gone or waits too long; what came until then tells.
    let _ = reader.take(MAX_REQUEST + 1).read_until(b'\n', &mut line);
    if line.last() == Some(&b'\n') {
        Ok(line)
    } else if line.len() as u64 > MAX_REQUEST {
        Err(Refusal::new(libc::E2BIG, format!("a request has {} KiB at the most", MAX_REQUEST >> 10)))
    } else {
        Err(Refusal::wrong("half a request: a newline ends one"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn args(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
    }

    #[test]
    fn every_request_is_read_as_it_was_written() {
        for request in [
            Request::Status,
            Request::Stop,
            Request::Switch(Owner::Default),
            Request::Switch(Owner::Vrq),
            Request::Tune(vec![]),
            Request::Tune(vec!["rr_interval_ms=3".into(), "max_wait_ms=200".into()]),
        ] {
            assert_eq!(Request::parse(&request.args().into_iter().collect()), Ok(request));
        }
    }

    #[test]
    fn a_wrong_request_is_refused() {
        for (pairs, wanted) in [
            (&[][..], "version"),
            (&[("command", "stop")], "version"),
            (&[("version", "2"), ("command", "stop")], "version"),
            (&[("version", "1")], "command"),
            (&[("version", "1"), ("command", "explode")], "command"),
            (&[("version", "1"), ("command", "switch")], "to"),
            (&[("version", "1"), ("command", "switch"), ("to", "cfs")], "to"),
            (&[("version", "1"), ("command", "stop"), ("to", "vrq")], "arguments"),
            (&[("version", "1"), ("command", "status"), ("x", "")], "arguments"),
        ] {
            let refusal = Request::parse(&args(pairs)).expect_err("wrong");
            assert!(refusal.why.contains(wanted), "{pairs:?}: {}", refusal.why);
        }
    }

    #[test]
    fn only_a_whole_line_of_bounded_length_is_a_request() {
        let read = |bytes: &[u8]| read_request(&mut BufReader::new(bytes));
        assert_eq!(read(b"{}\nmore"), Ok(b"{}\n".to_vec()));
        assert_eq!(read(b"{\"req\":").map_err(|r| r.errno), Err(libc::EINVAL));
        assert_eq!(read(&vec![b'x'; 100 << 10]).map_err(|r| r.errno), Err(libc::E2BIG));
    }

    /// A client whose loop answers nothing.
    fn client(is_root: bool) -> (Client, UnixStream, Receiver<Ask>) {
        let (stream, peer) = UnixStream::pair().expect("sockets");
        let (asks, receiver) = unbounded();
        (Client { stream, asks, is_root, last: None }, peer, receiver)
    }

    #[test]
    fn only_root_may_change_something() {
        let (mut guest, _peer, asks) = client(false);
        for words in [vec!["rr_interval_ms=3".into()], vec!["x".into()]] {
            let line = serde_json::to_vec(&StatsRequest::new("control", Request::Tune(words).args())).expect("JSON");
            assert_eq!(guest.answer(&line).map_err(|r| r.errno), Err(libc::EPERM));
        }
        for request in [Request::Stop, Request::Switch(Owner::Default)] {
            let line = serde_json::to_vec(&StatsRequest::new("control", request.args())).expect("JSON");
            assert_eq!(guest.answer(&line).map_err(|r| r.errno), Err(libc::EPERM));
        }
        assert!(asks.is_empty(), "the loop was not asked");
    }

    #[test]
    fn a_connection_survives_a_wrong_line_and_ends_after_half_of_one() {
        let (mut server, mut peer, _asks) = client(true);
        let thread = std::thread::spawn(move || server.serve());
        peer.write_all(b"nonsense\n\xff\xfe\n{\"req\":\"stats_meta\"}\n{\"req").expect("it reads");
        peer.shutdown(std::net::Shutdown::Write).expect("a socket");
        let answers: Vec<StatsResponse> =
            BufReader::new(peer).lines().map(|l| serde_json::from_str(&l.expect("UTF-8")).expect("JSON")).collect();
        assert_eq!(answers.iter().map(|a| a.errno).collect::<Vec<_>>(), [libc::EINVAL, libc::EINVAL, 0, libc::EINVAL]);
        assert!(thread.join().expect("no panic").is_ok());
    }

    proptest! {
        #[test]
        fn any_line_is_answered(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let (mut server, _peer, _) = client(true);
            let _ = server.answer(&line);
        }

        #[test]
        fn any_arguments_are_read_or_refused(
            args in proptest::collection::btree_map("version|command|to|set|.{0,5}", "1|status|stop|tune|switch|.{0,20}", 0..5)
        ) {
            let _ = Request::parse(&args);
        }
    }
}
