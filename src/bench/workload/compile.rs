//! Compiles a real C program with make and the host's compiler, then runs it to see that it works.
//!
//! The sources are in this binary: eight modules, each instantiated `scale` times as a translation
//! unit of its own, so a compile is many processes that live for a tenth of a second, as in any C
//! project. Every instance tests itself, so a compile that went wrong does not count as fast.

use super::super::execute;
use super::super::scheduler_spec::find_program;
use super::{Outcome, Workload, last_line, output_to};
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MODULES: [(&str, &str); 8] = [
    ("bignum", include_str!("../compile/bignum.c")),
    ("expr", include_str!("../compile/expr.c")),
    ("graph", include_str!("../compile/graph.c")),
    ("json", include_str!("../compile/json.c")),
    ("lz", include_str!("../compile/lz.c")),
    ("map", include_str!("../compile/map.c")),
    ("matrix", include_str!("../compile/matrix.c")),
    ("sort", include_str!("../compile/sort.c")),
];
const MAIN: &str = include_str!("../compile/main.c");
const HEADER: &str = include_str!("../compile/ns.h");
const PROGRAM: &str = "selftest";

pub struct Compile {
    scale: u32,
    dir: PathBuf,
}

impl Compile {
    /// `scale`: instances of each module, 1 or more.
    pub fn new(scale: u32) -> Compile {
        Compile { scale, dir: PathBuf::new() }
    }

    fn nr_modules(&self) -> usize {
        MODULES.len() * self.scale as usize
    }

    fn instances(&self) -> impl Iterator<Item = (&'static str, u32)> {
        let scale = self.scale;
        (0..scale).flat_map(|instance| MODULES.iter().map(move |(module, _)| (*module, instance)))
    }

    /// Every file of the program: name and text.
    fn files(&self) -> Vec<(String, String)> {
        let mut files: Vec<_> = MODULES.iter().map(|(name, text)| (format!("{name}.c"), text.to_string())).collect();
        files.push(("main.c".to_string(), MAIN.to_string()));
        files.push(("ns.h".to_string(), HEADER.to_string()));
        let mut tests = String::new();
        let mut objects = String::from("main.o");
        for (module, instance) in self.instances() {
            files.push((
                format!("{module}_{instance}.c"),
                format!("#define INSTANCE {instance}\n#include \"{module}.c\"\n"),
            ));
            // Writing to a String cannot fail.
            let _ = writeln!(tests, "TEST({module}_selftest_{instance})");
            let _ = write!(objects, " {module}_{instance}.o");
        }
        files.push(("tests.h".to_string(), tests));
        files.push(("Makefile".to_string(), makefile(&objects)));
        files
    }

    fn make(&self, arguments: &[&str]) -> Command {
        let mut make = Command::new("make");
        make.arg("-C").arg(&self.dir).args(arguments);
        // A make that runs the bench must not lend its job server, nor its flags, to the one measured.
        make.env_remove("MAKEFLAGS").env_remove("MFLAGS").env_remove("MAKELEVEL");
        make
    }
}

fn makefile(objects: &str) -> String {
    format!(
        "CC = cc\nCFLAGS = -std=gnu11 -O2 -g -Wall -Wextra\nOBJECTS = {objects}\n\
         {PROGRAM}: $(OBJECTS)\n\t$(CC) -o $@ $(OBJECTS)\n\
         %.o: %.c\n\t$(CC) $(CFLAGS) -c -o $@ $<\n\
         clean:\n\t@rm -f {PROGRAM} $(OBJECTS)\n.PHONY: clean\n"
    )
}

impl Workload for Compile {
    fn set_up(&mut self, dir: &Path) -> Result<()> {
        for tool in ["make", "cc"] {
            ensure!(find_program(tool).is_some(), "{tool} cannot be found: install make and gcc to measure a compile");
        }
        self.dir = dir.join("compile");
        fs::create_dir(&self.dir)?;
        for (name, text) in self.files() {
            let path = self.dir.join(name);
            fs::write(&path, text).with_context(|| format!("{} cannot be written: is it full?", path.display()))?;
        }
        Ok(())
    }

    fn prepare(&mut self, _jobs: u32) -> Result<()> {
        let mut clean = self.make(&["clean"]);
        let log = self.dir.join("clean.log");
        output_to(&mut clean, &log)?;
        let (status, _) = execute::run(&mut clean)?;
        ensure!(status.success(), "make clean failed: {}", last_line(&log));
        Ok(())
    }

    fn command(&self, jobs: u32) -> Result<Command> {
        Ok(self.make(&["-j", &jobs.to_string(), PROGRAM]))
    }

    fn check(&self, _output: &Path) -> Result<Outcome> {
        let log = self.dir.join("selftest.log");
        let mut program = Command::new(self.dir.join(PROGRAM));
        output_to(&mut program, &log)?;
        execute::run(&mut program)?;
        let want = format!("{} passed, 0 failed", self.nr_modules());
        let got = last_line(&log);
        if got != want {
            bail!("the compiled program printed {got:?} instead of {want:?}");
        }
        Ok(Outcome::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_compiles_without_a_warning_and_tests_itself() {
        let dir = tempfile::tempdir().expect("tempdir");
        let mut compile = Compile::new(1);
        compile.set_up(dir.path()).expect("set up");
        for _ in 0..2 {
            compile.prepare(2).expect("clean");
            let log = dir.path().join("log");
            let mut make = compile.command(2).expect("command");
            output_to(&mut make, &log).expect("log");
            let (status, usage) = execute::run(&mut make).expect("runs");
            let printed = fs::read_to_string(&log).expect("log");
            assert!(status.success(), "{printed}");
            assert!(!printed.contains("warning"), "{printed}");
            assert!(usage.user.as_millis() > 0);
            compile.check(&log).expect("right");
        }
    }

    #[test]
    fn scale_multiplies_the_translation_units() {
        for scale in [1, 3, 20] {
            let units = Compile::new(scale)
                .files()
                .iter()
                .filter(|(name, _)| name.contains("_") && name.ends_with(".c"))
                .count();
            assert_eq!(units, 8 * scale as usize);
        }
    }
}
