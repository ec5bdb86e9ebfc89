#!/bin/busybox sh
# shellcheck shell=dash
# Process 1 of the machine that vm/cost.sh boots: measure the kernel's default scheduler, then ours, print and power off.
# /job sets job (pipes, latency or callbacks) and scheduler (a command, or nothing). Every line that vm/cost.sh
# is to see goes to the serial port and starts with a word in capitals. Limits: BusyBox and what /job needs.
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
wait_for() { # state
	for _ in $(seq 300); do [ "$(cat $ext/state)" != "$1" ] || return 0; sleep 0.1; done
	finish "the state of sched_ext is $(cat $ext/state), not $1: $(tail -n3 /scheduler.log | tr '\n' ' ')"
}
measure() { # name
	sleep 5 # what the boot left to do would land in the figure
	case $job in
	pipes) echo "PIPES $1 $(pipe)" ;;
	latency)
		sh -c 'while :; do :; done' & one=$!
		sh -c 'while :; do :; done' & two=$!
		echo "LATENCY $1 $(cyclictest --policy=other -t1 -i 10000 -l 300 -q 2>&1 | grep Avg)"
		kill $one $two ;;
	callbacks)
		echo 1 > /proc/sys/kernel/bpf_stats_enabled
		echo "PIPES $1 $(pipe)"
		echo 0 > /proc/sys/kernel/bpf_stats_enabled
		echo "PROGRAMS $(bpftool prog show -j)" ;;
	esac
}

job='' scheduler=''
# shellcheck disable=SC1091
. /job
# An interrupted call is charged for the others' instructions: one CPU, but one where select_cpu runs.
[ "$job" != callbacks ] || echo 0 > /sys/devices/system/cpu/cpu1/online
[ "$job" = callbacks ] || measure default
[ -n "$scheduler" ] || finish
[ -e $ext/state ] || finish "this kernel has no sched_ext"
before=$(dmesg | wc -l)
$scheduler > /scheduler.log 2>&1 &
pid=$!
wait_for enabled
name=$(sed 's/_[0-9].*//' $ext/root/ops)
measure "$name"
[ "$(cat $ext/state)" = enabled ] || finish "$name was ejected: $(dmesg | grep sched_ext | tail -n2 | tr '\n' ' ')"
kill -INT $pid
wait_for disabled
wait $pid || finish "the scheduler ended with status $?: $(tail -n3 /scheduler.log | tr '\n' ' ')"
complaints=$(dmesg -r | tail -n +$((before + 1)) | grep '^<[0-4]>')
[ -z "$complaints" ] || finish "the kernel complained under $name: $(echo "$complaints" | head -n2 | tr '\n' ' ')"
finish
