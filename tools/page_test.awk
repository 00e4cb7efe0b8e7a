# Writes the C++ blocks of a page as one GoogleTest file. The blocks under one heading are the body of one test, so names carry on;
# a line that ends in `// => TEXT` is held to it, as tests/page.h says. Errors of the compiler and of the tests name the page's lines.
#
#   awk -f tools/page_test.awk docs/from-pytorch.md
function refuse(why) {
  print FILENAME ":" FNR ": " why > "/dev/stderr"
  refused = 1
  exit 1
}
function end_test() {
  if (!in_test) return
  print "}"
  if (!checks) refuse("the C++ above says nowhere what comes out; end a line with `// => ...`")
  in_test = checks = 0
}

BEGIN { print "#include \"page.h\"" }

/^```/ {
  language = in_block ? "" : substr($0, 4)
  in_block = !in_block
  if (language != "cpp") next
  if (!in_test++) {
    print "TEST(page, line_" FNR ") {\n  Context ctx(page_context());"
    ++tests
  }
  print "#line " FNR + 1 " \"" FILENAME "\""
  next
}
/^#/ && !in_block { end_test() }
language != "cpp" { next }

match($0, /\/\/ *=>/) {
  ++checks
  code = substr($0, 1, RSTART - 1)
  text = substr($0, RSTART + RLENGTH)
  sub(/ +$/, "", code)
  sub(/^ +/, "", text)
  if (code !~ /^[^ ].*;$/ || text ~ /^[. ]*$/) refuse("`// => ...` follows a statement that is one line and always runs, and says something")
  what = code
  if (code ~ /^[A-Za-z_:]+ [a-z_0-9]+ = /) {  # Tensor y = ...: of y
    sub(/ = .*/, "", what)
    sub(/.* /, "", what)
  } else {
    code = ""
    sub(/;$/, "", what)
  }
  print code " shows(ctx, " what ", R\"~(" text ")~\");"
  next
}
{ print }

END {
  if (refused) exit 1
  end_test()
  if (!tests) refuse("there is no C++ on this page")
}
