# A lesson of docs/lessons/ is a page with one program and what it prints: a ```cpp block, and the ```text block after it.
#
#   awk -f tools/lesson.awk LESSON.md                   prints the program
#   awk -f tools/lesson.awk -v block=cmake LESSON.md    prints the blocks of another language
#   awk -f tools/lesson.awk -v output=FILE LESSON.md    prints the page, with FILE in its ```text block
#
# So a page is right where the last of these, given what its program prints, gives the page.
function refuse(why) {
  print FILENAME ":" FNR ": " why > "/dev/stderr"
  refused = 1
  exit 1
}

BEGIN { if (!block) block = "cpp" }

/^```/ {
  language = in_block ? "" : substr($0, 4)
  in_block = !in_block
  if (language == block && ++found > 1 && block == "cpp") refuse("a lesson has one program")
  if (output) print
  if (language != "text") next
  if (!found || ++texts > 1) refuse("a lesson has one ```text block, after its program")
  if (output) while ((getline line < output) > 0) print line
  next
}
output && language != "text" { print }
!output && language == block { print }

END {
  if (refused) exit 1
  if (!found) refuse("there is no ```" block " block on this page")
  if (block == "cpp" && !texts) refuse("the page does not say what its program prints: a ```text block after it")
}
