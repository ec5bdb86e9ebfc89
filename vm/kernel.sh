#!/usr/bin/env bash
# Print the path of a kernel image that has sched_ext, fetching it from Debian into the cache if need be.
#
#   vm/kernel.sh newest|oldest|7.1|...   the newest release of that name; modules are beside it in lib/modules
#   vm/kernel.sh /path/to/vmlinuz        checked and printed back
#   vm/kernel.sh list                    every release on offer, oldest first
#
# Nothing on the machine changes: apt works on a state folder of its own inside the cache, with the
# mirror that the machine's own configuration names. Versions come and go, so they are resolved now.
# Limits: x86-64 and Debian's cloud flavour; the index is refreshed once a day.
set -euo pipefail
want=${1:-newest}
cache=${SCX_VRQ_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/scx_vrq}
apt=$cache/apt
suite=trixie-backports
oldest_supported=6.16      # the first Debian kernel with CONFIG_SCHED_CLASS_EXT=y
offline=                   # why there is no fresh index

die() { echo "vm/kernel.sh: $*" >&2; exit 1; }
field() { od -An -v -t x1 -j "$2" -N "$3" "$1" 2>/dev/null | tr -d ' \n'; } # file, offset, bytes
full() { [ "$(df --output=avail -k "$cache" | tail -n1)" -lt 200000 ]; }

# A bzImage says HdrS at 0x202 and, in bit 0 of 0x236, whether it has a 64-bit entry; a vmlinux is an x86-64 ELF.
check_image() { # path
	[[ -f $1 && -r $1 ]] || die "there is no kernel image at $1: give the path of a vmlinuz, a release such as 7.1, newest or oldest"
	if [ "$(field "$1" 514 4)" = 48647253 ] && (( 0x$(field "$1" 566 1) & 1 )); then return; fi
	if [ "$(field "$1" 0 5)$(field "$1" 16 4)" = 7f454c460202003e00 ] && grep -aqm1 'Linux version [0-9]' "$1"; then return; fi
	die "$1 is not an x86-64 Linux kernel image: give the path of a vmlinuz, a release such as 7.1, newest or oldest"
}

refresh() {
	[ -z "$(find "$apt/fresh" -mtime -1 2>/dev/null)" ] || return 0
	local mirror keyring=/usr/share/keyrings/debian-archive-keyring.gpg
	# shellcheck disable=SC2016 # apt's own variable
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m1 '/debian/$') ||
		{ offline="this machine's apt configuration names no Debian mirror"; return 0; }
	[ -f "$keyring" ] || { offline="$keyring is missing (package debian-archive-keyring)"; return 0; }
	echo "deb [signed-by=$keyring arch=amd64] $mirror $suite main" > "$apt/src.list"
	if apt-get "${opts[@]}" update > "$apt/log" 2>&1 && ! grep -q '^[WE]:' "$apt/log"; then touch "$apt/fresh"
	elif full; then offline="the disk of $cache is full"
	else offline="the Debian mirror cannot be reached"; fi
}

# Releases on offer, oldest first.
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n1)" = "$1" ]; }
releases() {
	apt-cache "${opts[@]}" pkgnames linux-image- 2>/dev/null | sed -n 's/^linux-image-\([0-9].*-cloud-amd64\)$/\1/p' |
		sort -V | while read -r r; do if at_least $oldest_supported "$r"; then echo "$r"; fi; done
}
cached() { find "$cache/kernels" -mindepth 2 -maxdepth 2 -name complete -printf '%h\n' 2>/dev/null | sed 's#.*/##' | sort -V; }

fetch() { # release
	local rel=$1 dir=$cache/kernels/$1 pkgs part
	[ ! -e "$dir/complete" ] || return 0
	[ -z "$offline" ] || die "Linux $rel cannot be fetched, $offline: put that right, or name a kernel of your own with KERNEL=/path/to/vmlinuz"
	# What a release is split into differs: take what there is.
	mapfile -t pkgs < <(apt-cache "${opts[@]}" pkgnames linux- | grep -xE "linux-(image|binary|modules|base)-${rel//[.+]/\\&}")
	echo "vm/kernel.sh: downloading Linux $rel (about 50 MB, once)" >&2
	tmp=$(mktemp -d "$cache/fetch.XXXXXX"); trap 'rm -rf "$tmp"' EXIT
	full && die "less than 200 MB are free for $cache: make room, or set SCX_VRQ_CACHE to a folder elsewhere"
	(cd "$tmp" && apt-get "${opts[@]}" download "${pkgs[@]}") > "$apt/log" 2>&1 ||
		die "Linux $rel could not be downloaded ($(grep -m1 '^E:' "$apt/log")): check the network and try again"
	for part in "$tmp"/*.deb; do
		dpkg -x "$part" "$tmp/root" 2>> "$apt/log" || die "$(basename "$part") could not be unpacked into $cache ($(tail -n1 "$apt/log"))"
	done
	mkdir -p "$tmp/out/lib/modules" "$cache/kernels"
	find "$tmp/root" -path "*/modules/$rel" -prune -exec mv -t "$tmp/out/lib/modules" {} +
	find "$tmp/root" "$tmp/out" \( -name "vmlinuz-$rel" -o -name vmlinuz \) -type f -exec mv {} "$tmp/out/vmlinuz" \; -quit
	[ -f "$tmp/out/vmlinuz" ] || die "the packages of Linux $rel hold no kernel image: ${pkgs[*]}"
	# The archive keeps the images of some releases without their modules: enough for vm/cost.sh.
	[ ! -d "$tmp/out/lib/modules/$rel" ] || depmod -b "$tmp/out" "$rel" || die "depmod failed for Linux $rel: is the package kmod installed?"
	touch "$tmp/out/complete"
	rm -rf "$dir"; mv "$tmp/out" "$dir"
	rm -rf "$tmp"; trap - EXIT
}

if [[ $want == */* ]]; then check_image "$want"; realpath "$want"; exit; fi
[ "$(uname -m)" = x86_64 ] || die "only x86-64 is supported, this machine is $(uname -m)"
command -v apt-get dpkg >/dev/null || die "apt-get is missing and the kernels come from Debian: name one of your own with KERNEL=/path/to/vmlinuz"
mkdir -p "$apt"/lists/partial "$apt"/cache/archives/partial 2>/dev/null || die "cannot write to $cache: set SCX_VRQ_CACHE to a folder with 1 GB free"
opts=(-o Dir::Etc::sourcelist="$apt/src.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$apt/lists"
      -o Dir::Cache="$apt/cache" -o Dir::State::status=/dev/null -o APT::Sandbox::User= -qq)
refresh
all=$(releases || true)
[ -n "$all" ] || all=$(cached || true)       # kernels in the cache serve when the network does not
[ -n "$all" ] || die "no kernel in the cache and none to be had, ${offline:-$suite has none}: put that right, or name one with KERNEL=/path/to/vmlinuz"
case $want in
list) echo "$all"; exit ;;
newest) rel=$(tail -n1 <<< "$all") ;;
oldest) rel=$(head -n1 <<< "$all") ;;
*) rel=$(grep -E "^${want//./\\.}([.+-]|$)" <<< "$all" | tail -n1) || die "there is no kernel '$want': vm/kernel.sh list names the $(wc -l <<< "$all") on offer" ;;
esac
fetch "$rel"
echo "$cache/kernels/$rel/vmlinuz"
