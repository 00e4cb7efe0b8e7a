#!/usr/bin/env bash
# pictures.sh CARAVAN: writes the pictures of docs/pictures again that the commands of docs/gallery.md make. The others are drawn by hand
# (shapes, hero), or are screenshots of the test page.browser (page-*).
set -euo pipefail
caravan=$(realpath "$1")
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$caravan" "$work/bin/caravan"
commands=$(awk -f tools/lesson.awk -v block=sh docs/gallery.md)
(cd "$work" && PATH=$work/bin:$PATH bash -euo pipefail -c "${commands/ --epochs 1 / }")
while read -r from to; do cp "$work/$from" "docs/pictures/$to"; done <<'TEXT'
line/line.svg line.svg
product/surface.svg surface.svg
moons/boundary.svg moons.svg
circle/predictions.svg circle.svg
digits/log_loss.svg log_loss.svg
digits/confusion.svg confusion.svg
digits/misread.png misread.png
between/interpolation.png interpolation.png
TEXT
