#!/bin/busybox sh
# shellcheck shell=dash
# Process 1 of the machine that vm/cost.sh boots: measure under each scheduler in turn, print and power off.
# /job sets job (work, latency or callbacks), works (of work.c) and last (the number of the last scheduler);
# /schedulers/N/command starts scheduler N, and the kernel's default has none. Every line that vm/cost.sh is to
# see goes to the serial port and starts with a word in capitals. Limits: BusyBox and what /job needs.
/bin/busybox --install -s /bin
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/
mkdir -p /proc /sys /dev /run /tmp /var
ln -s /run /var/run
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mount -t cgroup2 cgroup /sys/fs/cgroup; mount -t bpf bpf /sys/fs/bpf; mount -t debugfs debug /sys/kernel/debug
mkdir -p /dev/shm; mount -t tmpfs shm /dev/shm
exec < /dev/null > /dev/ttyS0 2>&1
ext=/sys/kernel/sched_ext

finish() { [ $# = 0 ] || echo "FAILED $*"; sync; poweroff -f; }
log_tail() { tail -n3 /scheduler.log | tr '\n' ' '; }
wait_for() { # state
	for _ in $(seq 300); do [ "$(cat $ext/state)" != "$1" ] || return 0; sleep 0.1; done
	finish "$name: the state of sched_ext is $(cat $ext/state), not $1: $(log_tail)"
}
do_work() { # work
	figures=$(work "$1") || finish "$name: $1 failed: $figures"
	echo "WORK $1 $n$figures"
}
measure() {
	case $job in
	work) for each in $works; do do_work "$each"; done ;;
	latency)
		sleep 5 # what the boot left to do would land in the figure
		sh -c 'while :; do :; done' & one=$!
		sh -c 'while :; do :; done' & two=$!
		echo "LATENCY $n $(cyclictest --policy=other -t1 -i 10000 -l 300 -q 2>&1 | grep Avg)"
		kill $one $two ;;
	callbacks)
		echo 1 > /proc/sys/kernel/bpf_stats_enabled
		do_work pipe
		echo 0 > /proc/sys/kernel/bpf_stats_enabled
		echo "PROGRAMS $n $(bpftool prog show -j)" ;;
	esac
}
measure_loaded() { # command
	[ -e $ext/state ] || finish "this kernel has no sched_ext"
	before=$(dmesg | wc -l)
	sh "$1" > /scheduler.log 2>&1 &
	pid=$!
	wait_for enabled
	loads=$(cat $ext/enable_seq)
	measure
	if [ "$(cat $ext/state)" != enabled ] || [ "$(cat $ext/enable_seq)" != "$loads" ]; then
		finish "$name was ejected: $(dmesg | grep sched_ext | tail -n2 | tr '\n' ' ')"
	fi
	kill -INT $pid
	wait_for disabled
	wait $pid || finish "$name ended with status $?: $(log_tail)"
	complaints=$(dmesg -r | tail -n +$((before + 1)) | grep '^<[0-4]>')
	[ -z "$complaints" ] || finish "the kernel complained under $name: $(echo "$complaints" | head -n2 | tr '\n' ' ')"
}

job='' works='' last=0
# shellcheck disable=SC1091
. /job
# An interrupted call is charged for the others' instructions: one CPU, but one where select_cpu runs.
[ "$job" != callbacks ] || echo 0 > /sys/devices/system/cpu/cpu1/online
for n in $(seq "$last"); do
	name=$(cat "/schedulers/$n/name")
	if [ -e "/schedulers/$n/command" ]; then measure_loaded "/schedulers/$n/command"
	elif [ "$job" != callbacks ]; then measure; fi
done
finish
