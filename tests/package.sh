#!/usr/bin/env bash
# package.sh BUILD PAGE COMPILER [FLAGS...]: installs BUILD into a folder of its own and does there what the lesson PAGE says: its files, then its
# commands. What is built with find_package, with pkg-config and from exported C must give the answers of the page.
set -euo pipefail
build=$1 page=$(realpath "$2") compiler=$3
shift 3
sources=$(cd "$(dirname "$0")/.." && pwd)
reader=$sources/tools/lesson.awk
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "package: $*" >&2
  exit 1
}
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$* failed"; }; }
block() { awk -f "$reader" -v block="$1" "$page"; }

export HOME=$work/home  # the page installs into ~/.local
mkdir -p "$HOME" "$work/bin" "$work/project"
quietly cmake --install "$build" --prefix "$work/first"
mv "$work/first" "$HOME/.local"  # a package that was moved works too

# Only public headers are there, and none of them needs another.
while read -r header; do
  [[ -f $HOME/.local/include/$header ]] || fail "$header is not installed"
done < <(sed -n 's|^\(caravan/[^ ]*\).*|\1|p' "$sources/cmake/public_headers.txt")
for inside in codegen lower data/zip.h runtime/devices.h; do
  [[ -e $sources/caravan/$inside ]] || fail "there is no caravan/$inside, which this test says is the inside"
  [[ ! -e $HOME/.local/include/caravan/$inside ]] || fail "caravan/$inside is the inside, but it is installed"
done
(cd "$HOME/.local/include" && find caravan -name '*.h' -printf '#include <%p>\n' | sort) >"$work/all.cpp"
quietly "$compiler" "$@" -std=c++20 -fsyntax-only -I "$HOME/.local/include" "$work/all.cpp"

# GCC warns of nothing in programs that use the headers. Some of its warnings need optimisation.
if "$compiler" --version | grep -q 'Free Software Foundation'; then
  for example in xor models saved_model; do
    quietly "$compiler" -std=c++20 -O3 -Wall -Wextra -Werror -I "$HOME/.local/include" -c "$sources/examples/$example.cpp" -o "$work/example.o"
  done
fi

# The page's c++ is the compiler of this build, with its flags.
printf '#!/bin/sh\nexec %q %s "$@"\n' "$compiler" "$*" >"$work/bin/c++"
chmod +x "$work/bin/c++"
export PATH=$work/bin:$HOME/.local/bin:$PATH CXX=$work/bin/c++ CARAVAN_CACHE=$work/cache PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$HOME/.local" -name caravan.pc)")
if command -v ninja >/dev/null; then export CMAKE_GENERATOR=Ninja; fi  # a bare machine need not have make

cd "$work/project"
block cmake >CMakeLists.txt
block cpp >main.cpp
block text >expected.txt
block sh >commands.sh
tried="find_package, pkg-config and exported C" programs=(build/which_moon ./which_moon)
if ! command -v pkg-config >/dev/null; then
  sed -i /pkg-config/d commands.sh
  tried="find_package and exported C; pkg-config is not installed and was not tried" programs=(build/which_moon)
fi
if [[ ! -x $HOME/.local/bin/caravan ]]; then
  quietly cmake -B build -DCMAKE_PREFIX_PATH="$HOME/.local"
  quietly cmake --build build
  echo "package: find_package works; the command is not built, so there is no model for the program"
  exit 0
fi
quietly bash -e commands.sh

for program in "${programs[@]}"; do
  "$program" moons.safetensors | diff -u expected.txt - || fail "$program does not say what the page says"
done
awk '{ print ($1 > 0 ? "upper" : "lower") }' scores.txt >signs.txt
grep -o 'upper\|lower' expected.txt | diff -u - signs.txt || fail "the exported C does not say what the page says"
# A project that the command makes builds as the command says, and learns.
cd "$work"
for recipe in xor moons mnist-mlp; do
  quietly caravan new "my-$recipe" --recipe "$recipe"
  quietly bash -ec "cd my-$recipe && cmake -B build && cmake --build build"
done
(cd my-xor && build/my-xor) | diff -u "$sources/examples/xor.expected" - || fail "a new project does not learn xor"
(cd my-moons && build/my-moons) | grep -Eq '^accuracy on the points: (0\.9[5-9]|1)' || fail "a new project does not learn moons"
[[ -f $HOME/.local/share/man/man1/caravan-train.1 && -f $HOME/.local/share/bash-completion/completions/caravan ]] ||
  fail "the manual is not installed"
echo "package: right with $tried"
