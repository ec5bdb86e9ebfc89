#!/usr/bin/env bash
# Run a command as root in a virtual machine that sees this machine's files, and exit with its status.
#
#   vm/boot.sh [--kernel newest|oldest|7.1|/path/to/vmlinuz] [--cpus N|--smp QEMU-SMP] [--memory 4G]
#              [--offline 1,3] [--append 'KERNEL ARGS'] [--accel auto|kvm|tcg|icount] -- CMD ARGS...
#
# The guest (virtme-ng over virtiofs) runs CMD in the caller's directory, with the caller's PATH and no
# stdin. What it writes is lost: /run and /dev/shm are tmpfs, /tmp too unless the directory or CMD lie
# in it, and /etc, /var, HOME and the directory are overlays. All else is read-only.
# --offline takes CPUs away before CMD starts, so that the numbers of the others have holes.
# --accel auto takes KVM where that works, else icount: emulation whose clock counts instructions (4 ns each, over
# all CPUs). A busy host does not disturb such a guest's time, and kernel code that is patched under running CPUs,
# as sched_ext does when it starts and stops, never meets the emulator's threads (under tcg, with the QEMU 7.2 of
# Debian 12, a guest in ten panics in __schedule for that).
# Limits: no network; VM_TIMEOUT seconds (1800); x86-64.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
kernel=newest cpus=4 memory=4G offline='' append='' accel=auto limit=${VM_TIMEOUT:-1800}
cache=${SCX_VRQ_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/scx_vrq}

die() { echo "vm/boot.sh: $*" >&2; exit 1; }
args=("$@")
while [ $# -gt 0 ] && [ "$1" != -- ]; do
	[ $# -gt 1 ] || die "$1 needs a value"
	case $1 in
	--kernel) kernel=$2 ;;
	--cpus | --smp) cpus=$2 ;;
	--memory) memory=$2 ;;
	--offline) offline=$2 ;;
	--append) append=$2 ;;
	--accel) accel=$2 ;;
	*) die "unknown option '$1': the head of $0 lists them" ;;
	esac
	shift 2
done
[ $# -gt 1 ] || die "no command: give it after --"
shift
[[ $cpus =~ ^[1-9] ]] || die "'$cpus' is no number of CPUs: --cpus 4, or --smp 8,sockets=2,cores=2,threads=2"
[[ $offline =~ ^[0-9,]*$ ]] || die "'$offline' is no list of CPUs: --offline 1,3"
[[ $accel =~ ^(auto|kvm|tcg|icount)$ ]] || die "unknown accelerator '$accel': auto, kvm, tcg and icount are known"
[[ $limit =~ ^[1-9][0-9]*$ ]] || die "VM_TIMEOUT=$limit is no number of seconds"
[ -n "${VRQ_VM_DEPS:-}" ] || VRQ_VM_DEPS=1 exec "$here/deps.sh" vm -- "$0" "${args[@]}"
image=$("$here/kernel.sh" "$kernel")

tmp=$(mktemp -d "${TMPDIR:-/tmp}/scx_vrq.XXXXXX") vm='' readers=()
# shellcheck disable=SC2317 # called by the traps
stop() { # the machine, which is a process group of its own, and what reads from it
	if [ -n "$vm" ]; then
		kill -TERM -- "-$vm" 2>/dev/null || true
		for _ in {1..20}; do kill -0 -- "-$vm" 2>/dev/null || break; sleep 0.1; done
		kill -KILL -- "-$vm" 2>/dev/null || true
	fi
	[ ${#readers[@]} = 0 ] || kill "${readers[@]}" 2>/dev/null || true
	rm -rf "$tmp"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# /dev/kvm can be there and not work: believe it once a kernel ran far enough to miss its root. Asked once per boot.
kvm_works() {
	local verdict
	verdict=$cache/kvm-$(cat /proc/sys/kernel/random/boot_id)
	[ -w /dev/kvm ] || return 1
	if [ ! -e "$verdict" ]; then
		rm -f "$cache"/kvm-*
		{ timeout -k 1 20 qemu-system-x86_64 -accel kvm -cpu host,topoext=on -m 512 -nodefaults -display none -no-reboot \
			-serial "file:$tmp/kvm" -kernel "$image" -append 'console=ttyS0 panic=-1' < /dev/null > /dev/null || true; } 2>/dev/null
		if grep -q 'Kernel panic' "$tmp/kvm" 2>/dev/null; then echo yes; else echo no; fi > "$verdict"
	fi
	[ "$(cat "$verdict")" = yes ]
}
case $accel in
auto) if kvm_works; then accel=kvm; else accel=icount; fi ;;
kvm) kvm_works || die "KVM does not work on this machine: leave --accel out, and emulation does it" ;;
esac

overlays=()
for dir in /etc /var "$HOME" "$PWD" /tmp; do
	if [ "$dir" = /tmp ]; then [[ " $PWD $*" == *" /tmp/"* ]] || continue; fi
	for known in / "${overlays[@]}"; do [[ $dir/ != "${known%/}/"* || ( $known = / && $dir != / ) ]] || continue 2; done
	overlays+=("$dir")
done

# The guest's side. Ports take one writer each, hence the cats: they make stdout and stderr ordinary pipes.
{
	printf 'export PATH=%q HOME=%q\ncd %q\ncommand=(' "$PATH" "$HOME" "$PWD"; printf '%q ' "$@"; printf ')\n'
	printf 'kernel=%q\n' "${image%/*}"
	for cpu in ${offline//,/ }; do echo "echo 0 > /sys/devices/system/cpu/cpu$cpu/online || { echo CPU $cpu cannot be taken away; exit; }"; done
	[[ " ${overlays[*]} " == *" /tmp "* ]] || echo 'mount -t tmpfs -o mode=1777 tmpfs /tmp'
	cat <<-'GUEST'
	ln -sfn /proc/self/fd/1 /dev/stdout; ln -sfn /proc/self/fd/2 /dev/stderr
	# libbpf looks there, and some schedulers ask for it
	for config in "$kernel"/{lib/modules/"$(uname -r)"/,}config; do
		[ ! -f "$config" ] || [ -e "/boot/config-$(uname -r)" ] || { mount -t tmpfs boot /boot && cp "$config" "/boot/config-$(uname -r)"; }
	done
	port() { local n; n=$(grep -lx "vrq.$1" /sys/class/virtio-ports/*/name); n=${n%/name}; echo "/dev/${n##*/}"; }
	exec 3> >(exec cat > "$(port out)"); out=$!
	exec 4> >(exec cat > "$(port err)"); err=$!
	"${command[@]}" < /dev/null >&3 2>&4 3>&- 4>&-
	status=$?
	exec 3>&- 4>&-
	for _ in {1..50}; do kill -0 $out 2>/dev/null || kill -0 $err 2>/dev/null || break; sleep 0.1; done
	echo $status > "$(port ret)"
	GUEST
} > "$tmp/guest"

qemu=(-device "virtio-serial-pci,id=vrq")
for port in out err ret; do
	qemu+=(-chardev "file,id=vrq-$port,path=$tmp/$port" -device "virtserialport,bus=vrq.0,chardev=vrq-$port,name=vrq.$port")
done
mkfifo "$tmp/out" "$tmp/err" "$tmp/log.pipe"
cat "$tmp/out" & readers+=($!)
cat "$tmp/err" >&2 & readers+=($!)
cat "$tmp/log.pipe" > "$tmp/log" & readers+=($!)

run=(--name vrq --mods auto --kimg "$image" --cpus "$cpus" --memory "$memory" --show-boot-console --kopt loglevel=5)
for dir in "${overlays[@]}"; do run+=(--overlay-rwdir "$dir"); done
read -ra append <<< "$append"
for arg in "${append[@]}"; do run+=(--kopt "$arg"); done
if [ "$accel" = icount ]; then qemu+=(-accel "tcg,thread=single" -icount shift=2); fi
if [ "$accel" != kvm ]; then
	run+=(--disable-kvm --kopt tsc=reliable) # a busy host would make the guest drop its TSC
	# Kernels before 6.17 see no SMT siblings on the AMD processor that TCG shows by default.
	[[ $cpus != *threads=* ]] || qemu+=(-cpu "max,vendor=GenuineIntel")
fi
release=$(file -b "$image" | grep -oP 'version \K[0-9]\S*' || basename "$image")
echo "vm/boot.sh: Linux $release, $cpus CPUs, $memory, $accel" >&2
TMPDIR=$tmp timeout -k 5 "$limit" "$cache/venv/bin/python" -c 'from virtme.commands.run import main; main()' \
	"${run[@]}" --script-sh "bash $tmp/guest" --qemu-opts "${qemu[@]}" < /dev/null > "$tmp/log.pipe" 2>&1 &
vm=$!
status=0; wait "$vm" || status=$?
if [ -s "$tmp/ret" ]; then
	wait "${readers[0]}" "${readers[1]}"
	exit "$(cat "$tmp/ret")"
fi
sleep 0.2
grep -q 'Linux version' "$tmp/log" || die "the virtual machine did not start: $(tail -n 1 "$tmp/log")"
tail -n 40 "$tmp/log" >&2
[ $status != 124 ] || die "the time limit of $limit s passed (VM_TIMEOUT sets it)"
if grep -q 'Kernel panic' "$tmp/log"; then die "the guest's kernel panicked, see above"; fi
die "the virtual machine ended before the command did, see above for what it said"
