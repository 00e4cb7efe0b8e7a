#!/usr/bin/env bash
# lesson.sh READER PAGE PROGRAM: runs the program here and prints the page with its output put in (READER: tools/lesson.awk).
set -euo pipefail
"$3" >output.txt
awk -f "$1" -v output=output.txt "$2"
