# SPDX-License-Identifier: Apache-2.0
# What tools/demo, tools/test and .ci/run have in common; sourced by bash, from any folder.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Debian packages: what the build needs, and what the tests need beside it.
build_packages=(gcc g++ libc6-dev meson ninja-build pkg-config libjemalloc-dev libcmocka-dev
	libmicrohttpd-dev libjansson-dev libpcre2-dev libutf8proc-dev libxxhash-dev
	liburing-dev python3 python3-pip python3-venv ca-certificates curl)
test_packages=(binutils git)
ci_packages=(clang libclang-rt-14-dev)

say() { printf '%s\n' "$*" >&2; }

die() {
	say "error: $*"
	exit 1
}

# need_value OPTION COUNT: ends with the usage status if the option is the last word.
need_value() {
	[ "$2" -ge 2 ] && return 0
	say "error: $1 needs a value; see --help"
	exit 2
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		say "needs root: $*"
		return 1
	fi
}

# step TITLE LOG COMMAND...: runs it with all output in LOG, and names LOG when it fails.
step() {
	local title=$1 log=$2 start=$SECONDS
	shift 2
	printf '%-44s ' "$title" >&2
	if "$@" >"$log" 2>&1; then
		printf 'ok, %d s\n' $((SECONDS - start)) >&2
		return 0
	fi
	printf 'FAILED after %d s\n' $((SECONDS - start)) >&2
	tail -n 25 "$log" >&2
	say "the whole output: $log"
	return 1
}

# Prints those of the packages that are not installed.
missing_packages() {
	local p
	for p in "$@"; do
		dpkg-query -W -f '${db:Status-Status}\n' "$p" 2>/dev/null | grep -qx installed || echo "$p"
	done
}

# install_packages LOG PACKAGE...: installs what is missing; without network that is an error only
# if something is missing.
install_packages() {
	local log=$1 missing
	shift
	mapfile -t missing < <(missing_packages "$@")
	[ "${#missing[@]}" = 0 ] && return 0
	[ "$(id -u)" = 0 ] || command -v sudo >/dev/null ||
		die "need root to install packages; as root: apt-get install ${missing[*]}"
	step "installing ${#missing[@]} Debian packages" "$log" install_missing "${missing[@]}"
}

install_missing() {
	# sudo keeps no variables: env comes after it.
	as_root apt-get update &&
		as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y \
			--no-install-recommends "$@"
}

# configure_build DIR OPTION...: sets the build folder up, or takes the one that is there. A folder
# that another version of the tree or of meson left broken is made anew.
configure_build() {
	local dir=$1
	shift
	if [ -f "$dir/build.ninja" ]; then
		meson configure "$dir" "$@" && return 0
		rm -rf "$dir"
	fi
	meson setup "$dir" "$root" "$@"
}
