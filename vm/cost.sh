#!/usr/bin/env bash
# Count the instructions that a scheduler costs, exactly: two runs print the same.
#
#   vm/cost.sh [--latency | --callbacks] [--scheduler CMD] [--kernel K] [-v]
#
# Boots QEMU's emulation with one guest ns per instruction and everything in an initramfs, and runs the same
# work under the kernel's default scheduler and under CMD (target/release/scx_vrq; '' for the default alone):
#   (neither)    millions of instructions for 5,000 round trips of a byte through pipes, 1 and 4 CPUs
#   --latency    1 CPU, two hogs: how many us late cyclictest wakes up
#   --callbacks  instructions per call of each callback, statistics included, on one CPU of two
# Limits: all CPUs share one count, so it is cost and not parallel speed. -v prints every repetition.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
job=pipes scheduler=$here/../target/release/scx_vrq kernel=newest verbose=''

die() { echo "vm/cost.sh: $*" >&2; exit 1; }
args=("$@")
while [ $# -gt 0 ]; do
	case $1 in
	--latency) job=latency ;;
	--callbacks) job=callbacks ;;
	--scheduler) [ $# -gt 1 ] || die "--scheduler needs a command"; scheduler=$2; shift ;;
	--kernel) [ $# -gt 1 ] || die "--kernel needs a value"; kernel=$2; shift ;;
	-v) verbose=1 ;;
	*) die "unknown option '$1': the head of $0 lists them" ;;
	esac
	shift
done
read -r program options <<< "$scheduler" || true
[ -z "$program" ] || [ -x "$program" ] || die "$program is no program: run make first, or name one with --scheduler"
[ "$job$program" != callbacks ] || die "the default scheduler has no callbacks: name another with --scheduler"
[ -n "${VRQ_COST_DEPS:-}" ] || VRQ_COST_DEPS=1 exec "$here/deps.sh" vm cost -- "$0" "${args[@]}"
image=$("$here/kernel.sh" "$kernel")

tmp=$(mktemp -d "${TMPDIR:-/tmp}/scx_vrq.XXXXXX") vm=''
# timeout and QEMU are a process group of their own
trap '[ -z "$vm" ] || { kill -KILL -- "-$vm"; wait "$vm"; } 2>/dev/null || true; rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

add() { # program: it and its libraries into the initramfs
	local file
	install -D "$1" "$tmp/root/bin/$(basename "$1")"
	for file in $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*'); do install -D "$file" "$tmp/root$file"; done
}
add "$(command -v busybox)"
[ -z "$program" ] || add "$program"
case $job in
latency) add "$(command -v cyclictest)" ;;
callbacks) add "$(command -v bpftool)" ;;
esac
gcc -static -O2 -Wall -Werror -o "$tmp/root/bin/pipe" "$here/pipe.c"
install "$here/cost-init.sh" "$tmp/root/init"
printf 'job=%s\nscheduler="%s"\n' "$job" "${program:+$(basename "$program") $options}" > "$tmp/root/job"
find "$tmp/root" -exec touch -h -d @0 {} + # the date of a file, too, would change the count
(cd "$tmp/root" && find . | LC_ALL=C sort | cpio --quiet --reproducible -R 0:0 -o -H newc) > "$tmp/initramfs"

boot() { # cpus
	echo "vm/cost.sh: $(file -b "$image" | grep -oP 'version \K[0-9]\S*' || echo "$image"), $1 CPUs, counting instructions" >&2
	timeout -k 1 "${VM_TIMEOUT:-1800}" qemu-system-x86_64 -machine q35 -m 1G -smp "$1" -nodefaults -display none -no-reboot \
		-accel tcg,thread=single -icount shift=0,sleep=off -cpu max,-rdrand,-rdseed -seed 1 -rtc base=2026-01-01T00:00:00,clock=vm \
		-kernel "$image" -initrd "$tmp/initramfs" -serial "file:$tmp/out.$1" \
		-append 'console=ttyS0 quiet loglevel=1 panic=-1 nokaslr norandmaps mitigations=off tsc=reliable' < /dev/null 2> "$tmp/err" &
	vm=$!
	wait "$vm" || die "QEMU failed or took more than ${VM_TIMEOUT:-1800} s (VM_TIMEOUT): $(tail -n1 "$tmp/err")"
	vm=''
	tr -d '\r' < "$tmp/out.$1" > "$tmp/lines.$1"
	! grep -q '^FAILED' "$tmp/lines.$1" || die "$(sed -n 's/^FAILED //p' "$tmp/lines.$1")"
	grep -qE '^(PIPES|LATENCY)' "$tmp/lines.$1" || { tail -n 20 "$tmp/lines.$1" >&2; die "the machine measured nothing, see above"; }
	[ -z "$verbose" ] || grep -E '^(PIPES|LATENCY)' "$tmp/lines.$1" >&2
}

case $job in
pipes)
	boot 1; boot 4
	printf '%-12s %8s %8s\n' 'M instr.' '1 CPU' '4 CPUs'
	median() { sed -n "s/^PIPES $1 //p" "$tmp/lines.$2" | tr ' ' '\n' | grep . | sort -n | awk '{ v[NR] = $1 } END { printf "%.1f", (v[NR/2] + v[NR/2+1]) / 2e6 }'; }
	awk '/^PIPES/ { print $2 }' "$tmp/lines.1" |
		while read -r name; do printf '%-12s %8s %8s\n' "$name" "$(median "$name" 1)" "$(median "$name" 4)"; done ;;
latency)
	boot 1
	printf '%-12s %8s %8s\n' us avg max
	sed -n 's/^LATENCY \(\S*\).*Avg: *\([0-9]*\).*Max: *\([0-9]*\).*/\1 \2 \3/p' "$tmp/lines.1" |
		while read -r name avg max; do printf '%-12s %8s %8s\n' "$name" "$avg" "$max"; done ;;
callbacks)
	boot 2
	sed -n 's/^PROGRAMS //p' "$tmp/lines.2" | python3 -c '
import json, sys
print("%-20s %10s %14s" % ("callback", "calls", "instr. a call"))
for p in json.load(sys.stdin):
    if p["type"] == "struct_ops" and p.get("run_cnt"):
        print("%-20s %10d %14.1f" % (p["name"], p["run_cnt"], p["run_time_ns"] / p["run_cnt"]))' ;;
esac
