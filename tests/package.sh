#!/usr/bin/env bash
# package.sh BUILD PROJECT COMPILER [FLAGS...]: installs BUILD into a folder of its own and builds PROJECT against it, with
# find_package and with pkg-config. Both programs must print 15.
set -euo pipefail
build=$1 project=$2 compiler=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "package: $*" >&2
  exit 1
}
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$* failed"; }; }

quietly cmake --install "$build" --prefix "$work/first"
mv "$work/first" "$work/prefix"  # a package that was moved works too

generator=()
if command -v ninja >/dev/null; then generator=(-G Ninja); fi  # a bare machine need not have make
quietly cmake "${generator[@]}" -S "$project" -B "$work/app" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS="$*"
quietly cmake --build "$work/app"
[[ $("$work/app/app") == 15 ]] || fail "the program built with find_package did not print 15"
[[ -x $work/prefix/bin/caravan ]] && quietly "$work/prefix/bin/caravan" einsum 'ij;jk=>ik' 3,4 4,5

if ! command -v pkg-config >/dev/null; then
  echo "package: find_package works; pkg-config is not installed, so the .pc file was not tried"
  exit 0
fi
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name caravan.pc)")
# shellcheck disable=SC2046
quietly "$compiler" "$@" -std=c++20 "$project/main.cpp" $(pkg-config --cflags --libs caravan) -o "$work/by_pkg_config"
[[ $("$work/by_pkg_config") == 15 ]] || fail "the program built with pkg-config did not print 15"
echo "package: find_package and pkg-config work"
