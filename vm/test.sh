#!/usr/bin/env bash
# Run every test: on this machine, then the live ones in a virtual machine of each shape below.
#
#   vm/test.sh           what a change must pass
#   vm/test.sh all       and the faults that broke other schedulers (cases, control, faults, loader), at full length, on both
#                        kernels with 4 CPUs, 1 CPU, 2 sockets with SMT, and holes in the CPU numbers
#   vm/test.sh soak      only the soak, on these four machines: SOAK_S seconds in all (1800), SOAK_SEED to have one again
#
# Ends with one line, N passed; M failed. A step that did not start, ended badly or ran no test is one failure.
# Limits: VM_TIMEOUT seconds (1500) for each machine.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
export VM_TIMEOUT=${VM_TIMEOUT:-1500}

# name | kernel | machine | arguments to the tests
shapes=(
	"newest  | newest | --cpus 4 | any:: smp:: parity:: bench:: control:: cases::"
	"oldest  | oldest | --cpus 4 | any:: smp:: parity:: control:: cases::c01 cases::c02 cases::c03 cases::c04 cases::c05 cases::c09"
	"one_cpu | newest | --cpus 1 | one_cpu:: any:: soak::"
	"smt     | newest | --smp 8,sockets=2,cores=2,threads=2 | smp::"
)

machines=("--cpus 4" "--cpus 1" "--smp 8,sockets=2,cores=2,threads=2" "--cpus 6 --offline 1,4")
soak_s=${SOAK_S:-180} soak_seed=${SOAK_SEED:-$RANDOM$RANDOM}
case ${1:-} in
'') ;;
all)
	export VM_TIMEOUT=3600 LIVE_LENGTH=full
	for kernel in newest oldest; do
		for machine in "${machines[@]}"; do shapes+=("all | $kernel | $machine | cases:: control:: faults:: loader:: mutants::"); done
	done ;;
soak)
	export VM_TIMEOUT=7200
	soak_s=$((${SOAK_S:-1800} / ${#machines[@]})) shapes=()
	for machine in "${machines[@]}"; do shapes+=("soak | newest | $machine | soak:: --nocapture"); done ;;
*) echo "vm/test.sh: '$1' is neither all nor soak" >&2; exit 1 ;;
esac

[ -n "${VRQ_DEPS:-}" ] || VRQ_DEPS=1 exec vm/deps.sh build vm -- "$0" "$@"
passed=0 failed=0 kernels=''
log=$(mktemp) || exit
trap 'rm -f "$log"' EXIT

count() { # passed or failed: the sum over libtest's result lines
	local list
	list=$(grep -aoP "^test result: .*?\K\d+(?= $1)" "$log" | paste -sd+)
	echo $((list))
}
step() { # name, command...
	local name=$1 status=0 ok bad
	shift
	echo "== $name (after $SECONDS s)"
	"$@" 2>&1 | tee "$log" || status=$?
	ok=$(count passed) bad=$(count failed)
	kernels+=$(sed -n 's/^vm.boot.sh: \(Linux [^,]*\),.*/\1\n/p' "$log" | sort -u)$'\n'
	if [ $((ok + bad)) = 0 ]; then bad=1; echo "vm/test.sh: $name ran no test" >&2
	elif [ $status != 0 ] && [ "$bad" = 0 ]; then bad=1; echo "vm/test.sh: $name ended with status $status" >&2; fi
	passed=$((passed + ok)) failed=$((failed + bad))
}

live() { # the path of the live tests' executable, built
	cargo test --release --features live --test live --no-run --message-format=json |
		grep -oP '"name":"live".*"executable":"\K[^"]+'
}

# The build that can have faults, for the tests that must see them.
with_faults() {
	cargo build --release --features faults && cp target/release/scx_vrq target/release/scx_vrq-faults
}

if [ "${1:-}" != soak ]; then
	step "on this machine" cargo test --release
	step "bad input" vm/selftest.sh
fi
echo "the soak's seed: SOAK_SEED=$soak_seed"
export VRQ_FAULTS_BIN=$PWD/target/release/scx_vrq-faults
if with_faults && executable=$(live); then
	for shape in "${shapes[@]}"; do
		IFS='|' read -r name kernel machine arguments <<< "$shape"
		read -r name <<< "$name"
		# shellcheck disable=SC2086 # words
		step "live, $name" vm/boot.sh --kernel $kernel $machine -- env LIVE_LENGTH="${LIVE_LENGTH:-}" SOAK_S="$soak_s" SOAK_SEED="$soak_seed" VRQ_FAULTS_BIN="$VRQ_FAULTS_BIN" "$executable" --test-threads=1 $arguments
	done
else
	failed=$((failed + 1)); echo "vm/test.sh: the live tests could not be built" >&2
fi
echo "kernels booted: $(sort -u <<< "$kernels" | grep . | paste -sd, | sed 's/,/, /g'); $SECONDS s"
echo "$passed passed; $failed failed"
[ $failed = 0 ]
