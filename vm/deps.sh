#!/usr/bin/env bash
# Install what this machine lacks of the needs named, saying so first; silent if it lacks nothing.
#
#   vm/deps.sh build|vm|cost... [-- CMD ARGS...]
#
# CMD runs with BPF_CLANG, LIBCLANG_PATH and PATH set to what was found. Rust and a clang named by
# BPF_CLANG are never installed or replaced: too old is said before anything is downloaded.
# Limits: installs on Debian 12 and 13, packages as root (or by sudo), all else into the cache.
set -euo pipefail
min_rust=1.91 min_clang=18 debian_clang=19
cache=${SCX_VRQ_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/scx_vrq}
export PATH=$cache/virtiofsd/bin:$PATH:/usr/sbin:/sbin

die() { echo "vm/deps.sh: $*" >&2; exit 1; }
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n1)" = "$1" ]; }

# lacks PACKAGE COMMAND-OR-FILE: without the second, the first is to be installed.
lacks() {
	if [[ $2 == /* ]]; then [ ! -e "$2" ] || return 0
	elif command -v "$2" >/dev/null; then return 0; fi
	[[ " ${packages[*]} " == *" $1 "* ]] || packages+=("$1")
}

check_rust() {
	local tool version
	for tool in rustc cargo; do
		version=$("$tool" --version 2>/dev/null) || die "$tool $min_rust or later is needed and was not found: install Rust with rustup"
		version=$(cut -d' ' -f2 <<< "$version")
		at_least $min_rust "${version%%-*}" || die "$tool $version is too old, $min_rust or later is needed: run rustup update stable"
	done
}

clang_major() { "$1" --version 2>/dev/null | sed -n '1s/.*clang version \([0-9]*\).*/\1/p'; }
check_clang() {
	local name major best=0
	if [ -n "${BPF_CLANG:-}" ]; then
		best=$(clang_major "$BPF_CLANG") || true
		[ -n "$best" ] || die "BPF_CLANG=$BPF_CLANG is not a clang: unset it, or name one of version $min_clang or later"
		[ "$best" -ge $min_clang ] || die "BPF_CLANG=$BPF_CLANG is clang $best, $min_clang or later is needed: unset it, or name a later one"
	else
		for name in clang clang-{18..23}; do
			command -v "$name" >/dev/null || continue
			major=$(clang_major "$name") || continue
			if [ "${major:-0}" -ge $min_clang ] && [ "$major" -gt "$best" ]; then best=$major BPF_CLANG=$name; fi
		done
		if [ "$best" = 0 ]; then best=$debian_clang BPF_CLANG=clang-$best; packages+=("$BPF_CLANG"); fi
	fi
	if [ -z "${LIBCLANG_PATH:-}" ]; then
		if compgen -G "/usr/lib/llvm-$best/lib/libclang*.so*" >/dev/null; then LIBCLANG_PATH=/usr/lib/llvm-$best/lib
		elif ! compgen -G '/usr/lib*/libclang.so*' >/dev/null; then # other distributions keep it where bindgen looks
			LIBCLANG_PATH=/usr/lib/llvm-$best/lib; packages+=("libclang1-$best")
		fi
	fi
	export BPF_CLANG; [ -z "${LIBCLANG_PATH:-}" ] || export LIBCLANG_PATH
}

need_build() {
	check_rust; check_clang
	lacks gcc gcc; lacks make make; lacks pkg-config pkg-config; lacks libc6-dev /usr/include/stdio.h
	lacks libelf-dev /usr/include/libelf.h; lacks zlib1g-dev /usr/include/zlib.h
}
need_vm() {
	lacks qemu-system-x86 qemu-system-x86_64; lacks kmod depmod; lacks file file
	# The initramfs needs a busybox without shared libraries; the package busybox has some.
	if ! command -v busybox >/dev/null || ldd "$(command -v busybox)" >/dev/null 2>&1; then packages+=(busybox-static); fi
	if [ ! -x "$cache/venv/bin/python" ] || [ ! -e "$cache/venv/complete" ]; then
		venv=virtme-ng; lacks python3 /usr/bin/python3
		/usr/bin/python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3-venv)
	fi
	command -v virtiofsd /usr/libexec/virtiofsd >/dev/null || virtiofsd=virtiofsd
}
need_cost() { lacks gcc gcc; lacks libc6-dev /usr/include/stdio.h; lacks cpio cpio; lacks rt-tests cyclictest; lacks bpftool bpftool; }

# How an installation went is of no interest unless it failed.
quietly() { # what it does, command...
	local what=$1; shift
	echo "scx_vrq: $what" >&2
	"$@" > "$tmp/log" 2>&1 < /dev/null && return
	[ "$(df --output=avail -k "$cache" | tail -n1)" -ge 100000 ] || die "the disk of $cache is full: make room, or set SCX_VRQ_CACHE to a folder elsewhere"
	die "$what failed ($(grep -m1 -iE '^E: |error' "$tmp/log" || tail -n1 "$tmp/log")): check the network and try again"
}

# Debian has a package of it from 13 on; before that it is built.
find_virtiofsd() {
	[ -n "$virtiofsd" ] || return 0
	if apt-cache show virtiofsd >/dev/null 2>&1; then packages+=(virtiofsd) virtiofsd=''; return; fi
	check_rust; lacks gcc gcc; lacks libseccomp-dev /usr/include/seccomp.h; lacks libcap-ng-dev /usr/include/cap-ng.h
}

install_all() {
	local root=()
	mkdir -p "$cache" 2>/dev/null || die "cannot write to $cache: set SCX_VRQ_CACHE to a folder with 1 GB free"
	if [ -n "${packages[*]}$virtiofsd" ]; then
		command -v apt-get >/dev/null || die "install ${packages[*]} $virtiofsd with this machine's package manager: only Debian's is known here"
		if [ "$(id -u)" != 0 ]; then
			root=(sudo); [ -t 0 ] || root=(sudo -n)
			command -v sudo >/dev/null || { find_virtiofsd; die "not root, and there is no sudo; as root run: apt-get install ${packages[*]}"; }
		fi
	fi
	tmp=$(mktemp -d "$cache/deps.XXXXXX"); trap 'rm -rf "$tmp"' EXIT
	if [ -n "${packages[*]}$virtiofsd" ]; then
		echo "scx_vrq: reading Debian's package lists (apt-get update)" >&2
		"${root[@]}" apt-get update > "$tmp/log" 2>&1 || true # another repository's failure need not be ours
		find_virtiofsd
	fi
	[ ${#packages[@]} = 0 ] || quietly "installing ${packages[*]} (apt-get)" "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
		apt-get -y -q --no-install-recommends -o DPkg::Lock::Timeout=300 install "${packages[@]}"
	if [ -n "$virtiofsd" ]; then
		quietly "building virtiofsd into $cache (cargo install, two minutes, once)" \
			env CARGO_TARGET_DIR="$tmp/target" cargo install virtiofsd --locked --root "$tmp/virtiofsd"
		rm -rf "$cache/virtiofsd"; mv "$tmp/virtiofsd" "$cache/virtiofsd"
	fi
	if [ -n "$venv" ]; then
		# shellcheck disable=SC2016
		quietly "installing virtme-ng into $cache (pip)" \
			sh -ec '/usr/bin/python3 -m venv "$1"; "$1/bin/python" -m pip install "virtme-ng>=1.42"; touch "$1/complete"' - "$tmp/venv"
		rm -rf "$cache/venv"; mv "$tmp/venv" "$cache/venv"
	fi
	rm -rf "$tmp"; trap - EXIT
}

needs=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
	case $1 in build|vm|cost) needs+=("$1") ;; *) die "unknown need '$1': build, vm and cost are known" ;; esac
	shift
done
[ ${#needs[@]} -gt 0 ] || die "name what is needed: build, vm or cost"
look() { packages=() venv='' virtiofsd=''; for need in "${needs[@]}"; do "need_$need"; done; [ -z "${packages[*]}$venv$virtiofsd" ]; }
if ! look; then
	install_all
	look || die "${packages[*]} $venv$virtiofsd: installed, and yet not found: is /usr/bin on the PATH?"
fi
if [ $# -gt 1 ]; then shift; exec "$@"; fi
