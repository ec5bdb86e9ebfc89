#!/usr/bin/env python3
"""Print the tables of what vm/cost.sh's machines said: vm/cost-table.py LINES NAME...

LINES has "BOOT JOB CPUS" and then what that machine printed (cost-init.sh); NAME... are the schedulers, which the
machines know by their numbers. Medians of the eight repetitions. Limits: fails on a line that is not complete.
"""
import json
import re
import statistics
import sys

UNITS = {"pipe": ("wake-ups", "a wake-up"), "messages": ("messages", "a message"), "forks": ("forks", "a fork")}
# In the order of a task's life; others follow as the kernel lists them.
CALLBACKS = ["init_task", "enable", "runnable", "select_cpu", "enqueue", "dispatch", "running", "tick", "stopping",
             "dequeue", "quiescent", "yield", "set_weight", "set_cpumask", "exit_task", "update_idle", "cpu_acquire",
             "cpu_release"]


def row(width, name, *cells):
    print(name.ljust(width), *(str(cell).rjust(11) for cell in cells))


def print_works(works, names, width):
    """For the whole work, the ratio to the kernel's default, and for one unit: on 1, 4, ... CPUs."""
    for work, figures in works.items():
        row(width, work, "CPUs", "M instr.", "to default", *UNITS[work])
        medians = {key: statistics.median(ns for ns, _ in runs) for key, runs in figures.items()}
        for (cpus, scheduler), total in medians.items():
            base = [medians[cpus, other] for other, name in names.items() if name == "default"]
            units = statistics.median(units for _, units in figures[cpus, scheduler])
            one = statistics.median(ns / units for ns, units in figures[cpus, scheduler])
            row(width, names[scheduler], cpus, f"{total / 1e6:.1f}", f"{total / base[0]:.3f}" if base else "-",
                f"{units:.0f}", f"{one:.0f}")
        print()


def print_latency(latency, names, width):
    row(width, "latency, us", "avg", "max")
    for scheduler, text in latency.items():
        row(width, names[scheduler], *re.search(r"Avg: *(\d+).*Max: *(\d+)", text).groups())
    print()


def callback_of(program):
    """Schedulers put their own word before the callback's name."""
    return next((known for known in CALLBACKS if program.endswith(f"_{known}")), program)


def print_callbacks(programs, wakeups, names, width):
    for scheduler, listed in programs.items():
        calls = [(callback_of(p["name"]), p["run_cnt"], p["run_time_ns"]) for p in listed
                 if p["type"] == "struct_ops" and p.get("run_cnt")]
        calls.sort(key=lambda call: CALLBACKS.index(call[0]) if call[0] in CALLBACKS else len(CALLBACKS))
        row(width, names[scheduler], "calls", "a call", "a wake-up")
        for name, count, ns in calls:
            row(width, f"  {name}", count, f"{ns / count:.1f}", f"{ns / wakeups[scheduler]:.1f}")
        row(width, "  all", sum(c for _, c, _ in calls), "", f"{sum(ns for *_, ns in calls) / wakeups[scheduler]:.1f}")
        print()


def main(path, *names):
    names = dict(enumerate(names, 1))
    width = max(16, *map(len, names.values()))
    job, works, latency, programs, wakeups = "", {}, {}, {}, {}
    for line in open(path, encoding="utf-8", errors="replace"):
        word, *rest = line.split(" ", 2)
        if word == "BOOT":
            job, cpus = rest[0], int(rest[1])
        elif word == "WORK":
            scheduler, *runs = rest[1].split()
            runs = [tuple(map(int, run.split("/"))) for run in runs]
            assert len(runs) == 8, line
            if job == "callbacks":
                wakeups[int(scheduler)] = sum(units for _, units in runs)
            else:
                works.setdefault(rest[0], {})[cpus, int(scheduler)] = runs
        elif word == "LATENCY":
            latency[int(rest[0])] = rest[1]
        elif word == "PROGRAMS":
            programs[int(rest[0])] = json.loads(rest[1])
    if works:
        print("Instructions of the whole machine for a fixed piece of work:\n")
        print_works(works, names, width)
    if latency:
        print_latency(latency, names, width)
    if programs:
        print("Instructions of each callback in the work pipe on one CPU, the kernel's statistics included:\n")
        print_callbacks(programs, wakeups, names, width)


main(*sys.argv[1:])
