#!/usr/bin/env bash
# Give the scripts beside this one bad input: each must say one sentence, fail, and leave nothing half-done.
# Then see that vm/boot.sh hands through what it should, and that vm/cost.sh counts the same twice.
#
#   vm/selftest.sh       prints what libtest would, so that vm/test.sh can count it
#
# Limits: Debian; wants vm/deps.sh build vm to have run; the last tests boot machines.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
tmp=$(mktemp -d /tmp/selftest.XXXXXX)
trap 'rm -rf "$tmp"' EXIT
export TMPDIR=$tmp/tmp
unset VRQ_DEPS VRQ_VM_DEPS VRQ_COST_DEPS BPF_CLANG LIBCLANG_PATH # what an outer script found
passed=0 failed=0

result() { # name, ok or FAILED, what was seen
	if [ "$2" = ok ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "    $3"; fi
	echo "test scripts::$1 ... $2"
}
refuses() { # name, what the sentence says, command...: 'scx_vrq: installing' and the like may precede it
	local name=$1 says=$2 status=0 seen left
	shift 2
	seen=$(timeout 120 "$@" 2>&1 < /dev/null) || status=$?
	seen=$(grep -v '^scx_vrq: \|^vm/boot.sh: Linux ' <<< "$seen")
	left=$(find "$TMPDIR" "$tmp/cache" -mindepth 1 -maxdepth 1 ! -name apt ! -name kernels)
	if ((status != 0 && status != 124)) && [ "$(wc -l <<< "$seen")" = 1 ] && grep -q "$says" <<< "$seen" && [ -z "$left" ]; then result "$name" ok
	else result "$name" FAILED "status $status, left '$left', said: $seen"; fi
	rm -rf "$TMPDIR" "$tmp/cache"; mkdir "$TMPDIR" "$tmp/cache"
}
fake() { # folder, program, body: found first by a PATH that begins with the folder
	mkdir -p "$tmp/$1"; printf '#!/bin/sh\n%s\n' "$3" > "$tmp/$1/$2"; chmod +x "$tmp/$1/$2"
}
mkdir "$TMPDIR" "$tmp/cache"
fake rust rustc 'echo "rustc 1.85.0 (4d91de4e4 2025-02-17)"'
fake clang clang-old 'echo "Debian clang version 14.0.6"'
fake user id 'echo 1000'
fake nothing apt-get 'echo "E: Failed to fetch it"; exit 100'
fake virtiofsd virtiofsd 'exit 0'
fake proxy apt-get "exec $(command -v apt-get) -o Acquire::http::Proxy=http://127.0.0.1:9 -o Acquire::https::Proxy=http://127.0.0.1:9 -o Acquire::Retries=0 \"\$@\""
mkdir "$tmp/bare"; cp -s /usr/bin/* "$tmp/bare" 2>/dev/null; rm -f "$tmp"/bare/{qemu-system-x86_64,sudo}
user=(); [ "$(id -u)" = 0 ] || user=(-r)
# shellcheck disable=SC2016
small_disk=(unshare "${user[@]}" -m sh -c 'mount -t tmpfs -o size=64k tmpfs "$SCX_VRQ_CACHE" && exec "$@"' -)
empty=(env "SCX_VRQ_CACHE=$tmp/cache")

refuses unknown_kernel "no kernel '5.4'" vm/boot.sh --kernel 5.4 -- true
refuses missing_kernel_image 'no kernel image at' vm/boot.sh --kernel /nowhere/vmlinuz -- true
refuses foreign_kernel_image 'not an x86-64 Linux kernel' vm/boot.sh --kernel /bin/ls -- true
refuses unknown_option 'unknown option' vm/boot.sh --color red -- true
refuses no_command 'no command' vm/boot.sh --cpus 4
refuses bad_number_of_cpus 'no number of CPUs' vm/boot.sh --cpus none -- true
refuses bad_list_of_cpus 'no list of CPUs' vm/boot.sh --offline 1-3 -- true
refuses impossible_shape 'did not start: .*Invalid CPU topology' vm/boot.sh --smp 4,sockets=3 -- true
refuses bad_time_limit 'no number of seconds' env VM_TIMEOUT=soon vm/boot.sh -- true
refuses cost_without_scheduler 'is no program' vm/cost.sh --scheduler /nowhere/scx_vrq
refuses cost_of_unknown_work "no work 'chess'" vm/cost.sh --work chess
refuses cost_of_no_callbacks 'has no callbacks' vm/cost.sh --callbacks --scheduler default
refuses cost_without_cpus 'not numbers of CPUs' vm/cost.sh --cpus 0
refuses old_rust 'rustc 1.85.0 is too old' env "PATH=$tmp/rust:$PATH" vm/deps.sh build
refuses old_clang 'is clang 14' env "PATH=$tmp/clang:$PATH" BPF_CLANG=clang-old vm/deps.sh build
refuses no_qemu_and_not_root 'as root run: apt-get install.* qemu-system-x86' env "PATH=$tmp/user:$tmp/bare" vm/boot.sh -- true
refuses no_qemu_and_no_network 'installing qemu-system-x86.* failed (E: Failed to fetch it)' env "PATH=$tmp/nothing:$tmp/bare" vm/boot.sh -- true
refuses no_kernel_and_no_network 'mirror cannot be reached' "${empty[@]}" "PATH=$tmp/proxy:$PATH" vm/kernel.sh newest
refuses no_virtme_ng_and_no_network 'installing virtme-ng.* failed' "${empty[@]}" "PATH=$tmp/virtiofsd:$PATH" PIP_INDEX_URL=http://127.0.0.1:9 PIP_FIND_LINKS= PIP_RETRIES=0 vm/deps.sh vm
refuses full_disk 'is full' "${empty[@]}" "${small_disk[@]}" vm/kernel.sh newest
refuses full_disk_for_tools 'is full' "${empty[@]}" "PATH=$tmp/virtiofsd:$PATH" "${small_disk[@]}" vm/deps.sh vm

boots() { # name, status, what is on stdout, what the last line of stderr says, command...
	local name=$1 want=$2 out=$3 says=$4 status=0 seen
	shift 4
	seen=$("$@" 2> "$tmp/err") || status=$?
	if [ "$status $seen" = "$want $out" ] && tail -n1 "$tmp/err" | grep -q "$says" && [ -z "$(ls -A "$TMPDIR")" ]; then result "$name" ok
	else result "$name" FAILED "status $status, left '$(ls -A "$TMPDIR")', said: $seen; $(tail -n3 "$tmp/err")"; fi
}
# shellcheck disable=SC2016
boots status_words_and_streams_survive 7 "[a  b][it's][\"\$HOME\"][]" '^err$' \
	vm/boot.sh --cpus 1 -- sh -c 'printf "[%s]" "$@"; echo err >&2; exit 7' - 'a  b' "it's" '"$HOME"' ''
boots panic_is_reported 1 before 'kernel panicked' vm/boot.sh --cpus 1 -- sh -c 'echo before; sleep 1; echo c > /proc/sysrq-trigger'
boots time_limit_is_reported 1 '' 'time limit of 5 s passed' env VM_TIMEOUT=5 vm/boot.sh --cpus 1 -- sleep 60

same_twice() { # name, command...: both outputs, to the last digit
	local name=$1 first second
	shift
	first=$("$@" 2>&1) && second=$("$@" 2>&1)
	if [ -n "$first" ] && [ "$first" = "${second:-}" ]; then result "$name" ok
	else result "$name" FAILED "$(diff <(echo "$first") <(echo "${second:-}") | head -n 10)"; fi
}
same_twice instructions_are_counted_exactly vm/cost.sh -v --work messages --cpus 4 --scheduler target/release/scx_vrq

if [ $failed = 0 ]; then word=ok; else word=FAILED; fi
echo "test result: $word. $passed passed; $failed failed; 0 ignored"
[ $failed = 0 ]
