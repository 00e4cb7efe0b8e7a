# Reads public headers and writes their part of the API reference: every name with what its comment says.
#
#   awk -f tools/api.awk [-v index_file=FILE] [-v missing_file=FILE] HEADER...
#
# The comment of a name stands above its declaration or at the end of its line. It serves all overloads of the name, and all names
# of one declaration (`int64_t h, w;`). A constructor, a call operator, an assignment and a comparison need none of their own where
# their class has one. Names without a comment go to missing_file, names with their headings to index_file. A name whose comment
# begins with `Inside:` must be in a public header because the others need it, but not in the reference: users do not.
#
# The headers are formatted by clang-format, so a declaration is read without knowing C++: it ends at a `;`, or at the end of the
# braces of its body.

function trim(text) {
  gsub(/^[ \t]+|[ \t]+$/, "", text)
  return text
}
# Where a comment starts in a line, outside of texts in quotes; 0: nowhere.
function comment_at(line, i, c, quote) {
  for (i = 1; i <= length(line); ++i) {
    c = substr(line, i, 1)
    if (quote) {
      if (c == "\\") ++i
      else if (c == quote) quote = ""
    } else if (c == "\"" || c == "'") quote = c
    else if (c == "/" && substr(line, i + 1, 1) == "/") return i
  }
  return 0
}
# The position of the first parenthesis that is not inside < > or quotes; 0: there is none.
function parenthesis(text, i, c, angle, quote) {
  for (i = 1; i <= length(text); ++i) {
    c = substr(text, i, 1)
    if (quote) {
      if (c == quote) quote = ""
    } else if (c == "\"") quote = c
    else if (c == "<") ++angle
    else if (c == ">" && substr(text, i - 1, 1) != "-") --angle
    else if (c ~ /[={]/ && !angle) return 0
    else if (c == "(" && !angle) {
      if (substr(text, 1, i - 1) !~ /requires *$/) return i
      for (angle = 1; angle && i < length(text);) {  # the condition of a template
        c = substr(text, ++i, 1)
        angle += (c == "(") - (c == ")")
      }
    }
  }
  return 0
}
# What a reader of the reference need not see: bodies, the line of the caller, our spelling of attributes.
function shown(text) {
  gsub(/[ \t]+/, " ", text)
  gsub(/,? ?Source where = Source::(here|exactly)\(\)/, "", text)
  gsub(/,? ?const char\* file = __builtin_FILE\(\), int line = __builtin_LINE\(\)/, "", text)
  gsub(/\[\[noreturn\]\] /, "", text)
  gsub(/ ?:: ?/, "::", text)
  return trim(text)
}
# A comment as Markdown: a sentence with its full stop, code set off, nothing taken for emphasis or a tag.
function sentence(text, lines, n, i, j, parts, m, out, code) {
  n = split(trim(text), lines, "\n")
  for (i = 1; i <= n; ++i) {
    if (lines[i] ~ /^    /) {
      if (!code) out = out "\n"
      code = 1
    } else {
      if (code) out = out "\n"
      code = 0
      m = split(lines[i], parts, "`")
      lines[i] = parts[1]
      for (j = 1; j <= m; ++j) {
        if (j % 2) {
          gsub(/\*/, "\\*", parts[j])
          gsub(/</, "\\<", parts[j])
        }
        lines[i] = j == 1 ? parts[1] : lines[i] "`" parts[j]
      }
    }
    out = out (i > 1 ? "\n" : "") lines[i]
  }
  # A word becomes the beginning of a sentence, unless it is a name: `f of ..`, `a plus b`, `state := ..`.
  if (out ~ /^([a-z][a-z]+([ ,;:.]|$)|a [a-z][a-z])/ && out !~ /^([a-z]+ :?[=+*\/<\\-]|a (plus|minus|times|divided) )/) out = toupper(substr(out, 1, 1)) substr(out, 2)
  if (!code && out !~ /[.:!?][)]?$/) out = out "."
  return out
}
function owner(i, out) {
  for (i = 1; i <= level; ++i)
    if (kind[i] == "type") out = out name_of[i] "::"
  return out
}
function hidden(i) {
  for (i = 1; i <= level; ++i)
    if (kind[i] == "type" && access[i] != "public") return 1
  return 0
}

# One name of the headers: `key` is its full name, `shape` one of type, function, member, and it may go without a comment if `free`.
function add(key, shape, signature, doc, free) {
  if (hidden()) return
  if (!(key in order)) {
    order[key] = ++names
    key_of[names] = key
    shape_of[key] = shape
    holder[key] = owner()
    file_of[key] = FILENAME
    line_of[key] = FNR
  }
  if (!free) needs[key] = 1
  if (doc != "") documented[key] = 1
  if (signature == "") return
  ++count[key]
  signatures[key, count[key]] = signature
  docs[key, count[key]] = doc
  last = key SUBSEP count[key]
}

# A declaration is complete. `text` has no bodies in it.
function declared(text, doc, at, head, plain, free, n, i, part, depth, c, piece, inside) {
  text = trim(text)
  if (text == "" || text ~ /^(friend|static_assert|namespace|extern|typedef)/) return
  if (text ~ /^(class|struct|enum|union) [A-Za-z_0-9:]+$/) return  # declared, and defined elsewhere
  inside = owner()
  if (text ~ /^using [A-Za-z_0-9:]+$/) return
  if (text ~ /^using /) {
    plain = text
    sub(/^using /, "", plain)
    sub(/ =.*/, "", plain)
    add(inside plain, inside ? "member" : "type", shown(text) ";", doc, 0)
    return
  }
  if (text ~ /concept [A-Za-z]+ =/) {
    plain = text
    sub(/.*concept /, "", plain)
    sub(/ =.*/, "", plain)
    add(inside plain, "type", shown(text) ";", doc, 0)
    return
  }
  if (match(text, /operator *(\(\)|\[\]|[^A-Za-z( ]+) *\(/)) {
    plain = substr(text, RSTART, RLENGTH - 1)
    gsub(/ /, "", plain)
    free = inside && (plain ~ /^operator(\(\)|=|==|->|\*)$/)
    add(inside plain, inside ? "member" : "function", shown(text) ";", doc, free)
    return
  }
  at = parenthesis(text)
  if (at) {
    head = trim(substr(text, 1, at - 1))
    plain = head
    sub(/.*[ &*>]/, "", plain)
    if (plain ~ /^~/) return
    if (inside && plain == name_of[level]) {
      sub(/\) *(noexcept)? *:[^:].*$/, ")", text)  # what it gives its members
      if (text ~ /\((const )?[A-Za-z_]+ ?&&\)/) return
      add(inside plain, "member", shown(text) ";", doc, 1)
    } else add(inside plain, inside ? "member" : "function", shown(text) ";", doc, 0)
    return
  }
  # Variables: one type, names with or without values, separated by commas.
  depth = 0
  n = 1
  part[1] = ""
  for (i = 1; i <= length(text); ++i) {
    c = substr(text, i, 1)
    if (c == "'") {
      part[n] = part[n] substr(text, i, 3)
      i += 2
      continue
    }
    depth += (c ~ /[<({]/) - (c ~ /[>)}]/)
    if (c == "," && depth == 0) part[++n] = ""
    else part[n] = part[n] c
  }
  for (i = 1; i <= n; ++i) {
    piece = part[i]
    sub(/ *[={].*/, "", piece)
    sub(/\[\]$/, "", piece)
    plain = trim(piece)
    sub(/.*[ &*>]/, "", plain)
    if (plain !~ /^[A-Za-z_][A-Za-z_0-9]*$/) {
      print FILENAME ":" FNR ": tools/api.awk cannot read `" text "`" > "/dev/stderr"
      failed = 1
      return
    }
    add(inside plain, inside ? "member" : "function", i == 1 || !inside ? shown(text) ";" : "", doc, 0)
  }
}
# A class, struct, enum or namespace opens.
function opened(text, doc, plain) {
  ++level
  if (text ~ /^(inline )?namespace/) {
    kind[level] = "namespace"
    return
  }
  plain = text
  sub(/^template *<.*> *(requires.*)?(class|struct)/, "struct", plain)
  sub(/^(enum class|enum|class|struct|union) /, "", plain)
  sub(/ .*/, "", plain)
  --level
  add(owner() plain, "type", shown(text) ";", doc, 0)
  ++level
  name_of[level] = plain
  kind[level] = "type"
  access[level] = text ~ /^class|> class/ ? "private" : "public"
}

FNR == 1 {
  ++files
  file_name[files] = FILENAME
  level = 0
  declaration = above = ""
  body = 0
  preamble = 1
  last = ""
}
{
  at = comment_at($0)
  code = at ? substr($0, 1, at - 1) : $0
  comment = at ? substr($0, at + 2) : ""
  sub(/^ /, "", comment)
  sub(/[ \t]+$/, "", code)
}
preamble {  # what the header says of itself
  if ($0 ~ /^\/\//) {
    about[files] = about[files] comment "\n"
    next
  }
  preamble = 0
}
code ~ /^#/ || in_macro {
  in_macro = code ~ /\\$/
  above = ""
  next
}
code == "" {
  if (body) next
  if (!at) {
    if (declaration == "") above = ""
    trail_column = 0
  } else if (comment ~ /^(---|clang-format|namespace)/) {
    above = ""
  } else if (trail_column == at && last != "" && above == "") {  # a comment at the end of a line goes on
    docs[last] = docs[last] " " comment
  } else {
    above = above (above != "" ? "\n" : "") comment
  }
  next
}
{
  trail_column = comment != "" ? at : 0
  trail = comment
  for (i = 1; i <= length(code); ++i) {
    c = substr(code, i, 1)
    if (quote) {
      if (c == "\\") {
        if (!body) declaration = declaration c substr(code, i + 1, 1)
        ++i
        continue
      }
      if (c == quote) quote = ""
      if (!body) declaration = declaration c
      continue
    }
    if (c == "\"" || (c == "'" && substr(code, i - 1, 1) !~ /[0-9]/)) {
      quote = c
      if (!body) declaration = declaration c
      continue
    }
    if (body) {  # inside a body or a value in braces
      body += (c == "{") - (c == "}")
      if (kept) declaration = declaration c
      # `: where{file, line} {`: that was a member's value in front of a constructor's body.
      if (body || kept || substr(code, i + 1) ~ /^ *[{,;]/) continue
      declared(declaration, doc_here())
      declaration = above = ""
      continue
    }
    if (c == "(") ++round
    if (c == ")") --round
    if (c == "{" && !round) {
      head = trim(declaration)
      if (head ~ /^(inline )?namespace/ || head ~ /^(template *<.*> *)?(requires.* )?(class|struct|union) [^=(]*$/) {
        opened(head, doc_here())
        declaration = above = ""
        continue
      }
      if (head ~ /^enum/) {
        kept = 1
        body = 1
        declaration = declaration c
        is_enum = 1
        continue
      }
      kept = parenthesis(head) == 0  # a value in braces belongs to the declaration, a body does not
      body = 1
      if (kept) declaration = declaration c
      continue
    }
    if (c == "}" && !round) {
      --level
      declaration = ""
      continue
    }
    if (c == ";" && !round) {
      if (is_enum) {
        text = trim(declaration)
        gsub(/[ \t]+/, " ", text)
        plain = text
        sub(/^enum (class )?/, "", plain)
        sub(/ .*/, "", plain)
        add(owner() plain, "type", text ";", doc_here(), 0)
        is_enum = 0
      } else if (trim(declaration) != "") declared(declaration, doc_here())
      declaration = above = ""
      continue
    }
    if (c == ":" && !round && trim(declaration) ~ /^(public|private|protected)$/) {
      access[level] = trim(declaration)
      declaration = ""
      continue
    }
    declaration = declaration c
  }
  if (!body || kept) declaration = declaration " "
}
# The comment of what is complete at this line.
function doc_here(out) {
  out = above
  if (trail != "" && trail !~ /^namespace/) out = out (out != "" ? "\n" : "") trail
  trail = ""
  return out
}

# --- writing ---
function anchor(text) {
  text = tolower(text)
  gsub(/[^a-z0-9_ -]/, "", text)
  gsub(/ /, "-", text)
  return text
}
function member_lines(key, i, text, doc) {
  for (i = 1; i <= count[key]; ++i) {
    text = signatures[key, i]
    doc = docs[key, i]
    if (doc ~ /^Inside:/) continue
    sub(/;$/, "", text)
    gsub(/\n/, " ", doc)
    print "* `" text "`" (doc != "" ? ": " sentence(doc) : "")
  }
}
# The comment of a name that is not a member: that of its first overload which has one. Those of others stay with them.
function write_name(key, i, first, doc) {
  for (first = 1; first < count[key] && docs[key, first] == "";) ++first
  if (docs[key, first] != "") print sentence(docs[key, first]) "\n"
  print "```cpp"
  for (i = 1; i <= count[key]; ++i) {
    doc = docs[key, i]
    gsub(/\n/, "\n// ", doc)
    if (i != first && doc != "") print "// " doc
    print signatures[key, i]
  }
  print "```\n"
}
END {
  if (failed) exit 1
  for (f = 1; f <= files; ++f) {
    header = file_name[f]
    print "## `" header "`\n"
    printf "%s\n", about[f]
    for (k = 1; k <= names; ++k) {
      key = key_of[k]
      if (file_of[key] != header) continue
      if (needs[key] && !documented[key] && missing_file)
        print header ":" line_of[key] ": `" key "` has no comment" > missing_file
      if (shape_of[key] == "member" || docs[key, 1] ~ /^Inside:/) continue
      print "### " key "\n"
      if (index_file) print key "\t" anchor(key) > index_file
      write_name(key)
      some = 0
      for (m = 1; m <= names; ++m)
        if (shape_of[key_of[m]] == "member" && holder[key_of[m]] == key "::") {
          member_lines(key_of[m])
          some = 1
        }
      if (some) print ""
    }
  }
}
