#!/usr/bin/env bash
# Count the instructions that a scheduler costs, exactly: two runs print the same.
#
#   vm/cost.sh [--work pipe|messages|forks|all] [--latency] [--callbacks] [--scheduler CMD [--as NAME]]...
#              [--cpus N,...] [--kernel K] [-v]
#
# Boots QEMU's emulation with one guest ns per instruction and everything in an initramfs, and does the same
# under each CMD (quoted as for a shell; 'default' is the kernel's own; without any, default and target/release/scx_vrq):
#   --work       millions of instructions of the whole machine for a fixed piece of work on 1 and 4 CPUs (--cpus),
#                and instructions for one unit of it; work.c says what is done. Without an option, the work pipe
#   --latency    1 CPU, two hogs: how many us late cyclictest wakes up
#   --callbacks  instructions per call of each callback, statistics included, in the work pipe on one CPU of two
# Limits: all CPUs share one count, so it is cost and not parallel speed. -v prints every repetition.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
jobs=() works='' names=() commands=() cpus=1,4 kernel=newest verbose=''

die() { echo "vm/cost.sh: $*" >&2; exit 1; }
args=("$@")
while [ $# -gt 0 ]; do
	case $1 in
	--work | --scheduler | --as | --cpus | --kernel) [ $# -gt 1 ] || die "$1 needs a value" ;;&
	--work)
		case $2 in pipe | messages | forks) works+=" $2" ;; all) works=' pipe messages forks' ;; *) die "no work '$2': pipe, messages, forks and all are known" ;; esac
		[[ " ${jobs[*]} " == *" work "* ]] || jobs+=(work)
		shift ;;
	--latency) jobs+=(latency) ;;
	--callbacks) jobs+=(callbacks) ;;
	--scheduler) commands+=("$2"); names+=(''); shift ;;
	--as) [ ${#names[@]} -gt 0 ] || die "--as comes after the --scheduler that it names"; names[-1]=$2; shift ;;
	--cpus) [[ $2 =~ ^[1-9][0-9]?(,[1-9][0-9]?)*$ ]] || die "--cpus $2: not numbers of CPUs with commas between"; cpus=$2; shift ;;
	--kernel) kernel=$2; shift ;;
	-v) verbose=1 ;;
	*) die "unknown option '$1': the head of $0 lists them" ;;
	esac
	shift
done
[ ${#jobs[@]} -gt 0 ] || jobs=(work) works=${works:-pipe}
[ ${#commands[@]} -gt 0 ] || { commands=(default "$here/../target/release/scx_vrq"); names=(default vrq); }

programs=() loaded=''
for i in "${!commands[@]}"; do
	programs[i]=''
	[ "${commands[i]}" != default ] || { names[i]=${names[i]:-default}; continue; }
	mapfile -d '' -t words < <(xargs printf '%s\0' <<< "${commands[i]}" 2>/dev/null)
	programs[i]=$(command -v -- "${words[0]:-}") || die "'${words[0]:-}' is no program: run make first, or name one with --scheduler"
	commands[i]=${words[*]@Q} loaded=1
	words[0]=${words[0]##*/}
	names[i]=${names[i]:-${words[*]}}
done
[[ -n $loaded || " ${jobs[*]} " != *" callbacks "* ]] || die "the default scheduler has no callbacks: name another with --scheduler"
[ -n "${VRQ_COST_DEPS:-}" ] || VRQ_COST_DEPS=1 exec "$here/deps.sh" vm cost -- "$0" "${args[@]}"
image=$("$here/kernel.sh" "$kernel")

tmp=$(mktemp -d "${TMPDIR:-/tmp}/scx_vrq.XXXXXX") vm=''
# timeout and QEMU are a process group of their own
trap '[ -z "$vm" ] || { kill -KILL -- "-$vm"; wait "$vm"; } 2>/dev/null || true; rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

add() { # program, folder: it into the folder and its libraries where they belong in the initramfs
	local file
	install -D -t "$tmp/root/$2" "$1"
	for file in $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*'); do install -D "$file" "$tmp/root$file"; done
}
add_scheduler() { # index: its name, and a command unless it is the default
	local dir=schedulers/$(($1 + 1)) first words
	mkdir -p "$tmp/root/$dir"
	echo "${names[$1]}" > "$tmp/root/$dir/name"
	[ -n "${programs[$1]}" ] || return 0
	for first in "${!programs[@]}"; do [ "${programs[first]}" != "${programs[$1]}" ] || break; done
	[ "$first" != "$1" ] || add "${programs[$1]}" "$dir"
	eval "words=(${commands[$1]})"
	words[0]=/schedulers/$((first + 1))/$(basename "${programs[$1]}")
	echo "exec ${words[*]@Q}" > "$tmp/root/$dir/command"
}
for program in busybox cyclictest bpftool; do add "$(command -v $program)" bin; done
for i in "${!commands[@]}"; do add_scheduler "$i"; done
gcc -static -O2 -Wall -Werror -o "$tmp/root/bin/work" "$here/work.c"
install "$here/cost-init.sh" "$tmp/root/init"

host_cpu=$(taskset -cp $$ | grep -o '[0-9]*$')
release=$(file -b "$image" | grep -oP 'version \K[0-9]\S*') || release=$image
for config in "${image%/*}/lib/modules/$release/config" "${image%/*}/config" "/boot/config-$release"; do # some schedulers ask for it
	[ ! -f "$config" ] || { install -D -m 644 "$config" "$tmp/root/boot/config-$release"; break; }
done

pack() { # job: the initramfs
	printf 'job=%s\nworks="%s"\nlast=%s\n' "$1" "${works# }" "${#commands[@]}" > "$tmp/root/job"
	find "$tmp/root" -exec touch -h -d @0 {} + # the date of a file, too, would change the count
	(cd "$tmp/root" && find . | LC_ALL=C sort | cpio --quiet --reproducible -R 0:0 -o -H newc) > "$tmp/initramfs"
}
boot() { # job, cpus: the machine's lines go to $tmp/lines
	pack "$1"
	echo "vm/cost.sh: $release, $2 CPUs, counting instructions" >&2
	# On one CPU of the host: QEMU's main thread winds the clock of an idle machine on, and may do so, if it runs beside the
	# machine's thread, a moment too early.
	timeout -k 1 "${VM_TIMEOUT:-1800}" taskset -c "$host_cpu" qemu-system-x86_64 -machine q35 -m 1G -smp "$2" -nodefaults -display none -no-reboot \
		-accel tcg,thread=single -icount shift=0,sleep=off -cpu max,-rdrand,-rdseed -seed 1 -rtc base=2026-01-01T00:00:00,clock=vm \
		-kernel "$image" -initrd "$tmp/initramfs" -serial "file:$tmp/out" \
		-append 'console=ttyS0 quiet loglevel=1 panic=-1 nokaslr norandmaps mitigations=off tsc=reliable' < /dev/null 2> "$tmp/err" &
	vm=$!
	wait "$vm" || die "QEMU failed or took more than ${VM_TIMEOUT:-1800} s (VM_TIMEOUT): $(tail -n1 "$tmp/err")"
	vm=''
	tr -d '\r' < "$tmp/out" > "$tmp/lines"
	! grep -q '^FAILED' "$tmp/lines" || die "$(sed -n 's/^FAILED //p' "$tmp/lines")"
	grep -qE '^(WORK|LATENCY)' "$tmp/lines" || { tail -n 20 "$tmp/lines" >&2; die "the machine measured nothing, see above"; }
	[ -z "$verbose" ] || grep -E '^(WORK|LATENCY)' "$tmp/lines" >&2
	{ echo "BOOT $1 $2"; cat "$tmp/lines"; } >> "$tmp/all"
}

for job in "${jobs[@]}"; do
	case $job in
	work) for n in ${cpus//,/ }; do boot work "$n"; done ;;
	latency) boot latency 1 ;;
	callbacks) boot callbacks 2 ;;
	esac
done
"$here/cost-table.py" "$tmp/all" "${names[@]}"
