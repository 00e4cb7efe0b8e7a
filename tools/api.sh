#!/usr/bin/env bash
# Writes the API reference, docs/api, from the public headers: every name with the comment that it has there.
#
#   tools/api.sh FOLDER     writes the pages into FOLDER
#   tools/api.sh --check    refuses a public name without a comment, and pages of docs/api that are not those of the headers
#   tools/api.sh --self-test
#
# What it covers: the headers of cmake/public_headers.txt and those that they include. Of the layers of the compiler only headers that
# are listed there count; the others are installed because a listed one includes them. A page is a folder of headers. Names whose
# comment begins with `Inside:` are left out.
set -euo pipefail
cd "$(dirname "$0")/.."
inside=' ir loop plan target shape '

if [[ ${1:-} == --self-test ]]; then  # exactly the names that end in `bare` lack a comment
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  cat >"$work/names.h" <<'TEXT'
// What the header is.
namespace caravan {
struct Bare;  // only declared
struct type_bare {
  int field_bare = 0, second_bare{1};
  int told = 0;  // said at the end of the line
  type_bare() : told(1) {}
  type_bare& operator=(const type_bare&) = default;
  void method_bare(const char* text = "}; //") const { if (told) return; }
  void method_bare(int);

 private:
  int hidden;
};
// Said above.
template <class T>
requires(sizeof(T) > 1) class Told {
 public:
  explicit Told(int n) : n{n}, list{n} {}
  int n;  // said
  // Said above.
  std::vector<int> list;
  enum class kind_bare { a, b };
};

int overloaded(int);  // said once
int overloaded(double);
std::function<void(int)> function_bare(std::function<int(int)> f = {});
using alias_bare = int;
int operator+(int a, type_bare b);  // said
// Inside: users do not need it.
struct left_out {
  int member_left_out;  // Inside: nor this
};
}  // namespace caravan
TEXT
  awk -f tools/api.awk -v missing_file="$work/missing" "$work/names.h" >"$work/page"
  if grep left_out "$work/page"; then echo "api: names of the inside should have been left out" >&2; exit 1; fi
  diff <(sed -E 's/.*`(.*)`.*/\1/' "$work/missing") <(printf '%s\n' type_bare type_bare::{field,second,method}_bare \
    Told::kind_bare function_bare alias_bare) || { echo "api: these names should have been missed (>) or not (<)" >&2; exit 1; }
  exit 0
fi

check=
folder=${1:-}
if [[ $folder == --check ]]; then
  check=1
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
fi
[[ -n $folder ]] || { echo "usage: tools/api.sh FOLDER|--check|--self-test" >&2; exit 2; }

layer_of() {
  local path=${1#caravan/}
  echo "${path%/*}"
}
declare -A pages=()  # the headers of each folder, in the order in which they are met
declare -A met=()
declare -A listed=()
mapfile -t waiting < <(sed -n 's|^\(caravan/[^ ]*\).*|\1|p' cmake/public_headers.txt)
for header in "${waiting[@]}"; do listed[$header]=1; done
while ((${#waiting[@]})); do
  header=${waiting[0]}
  waiting=("${waiting[@]:1}")
  if [[ -n ${met[$header]:-} || ! -f $header ]]; then continue; fi  # tensor/functions.h is made by the build: docs/ops.md has it
  layer=$(layer_of "$header")
  if [[ $inside == *" $layer "* && -z ${listed[$header]:-} ]]; then continue; fi
  met[$header]=1
  if grep -q '^namespace' "$header"; then pages[$layer]+="$header "; fi
  mapfile -t -O "${#waiting[@]}" waiting < <(sed -n 's|^#include "\(caravan/[^"]*\)".*|\1|p' "$header")
done

mkdir -p "$folder"
: >"$folder/index" >"$folder/missing"
for layer in $(printf '%s\n' "${!pages[@]}" | sort); do
  mapfile -t headers < <(tr ' ' '\n' <<<"${pages[$layer]}" | sed '/^$/d' | sort)
  page=$folder/$layer.md
  {
    printf '# API: %s\n\n<!-- Written by ./dev api from the headers. Change their comments, not this page. -->\n\n' "$layer"
    cat "caravan/$layer/README.md"
    printf '\nAll names: [index](README.md).\n\n'
    awk -f tools/api.awk -v index_file="$folder/names" -v missing_file="$folder/names.missing" "${headers[@]}"
  } >"$page"
  if [[ -f $folder/names ]]; then sed "s|\t|\t$layer.md#|" "$folder/names" >>"$folder/index"; fi
  if [[ -f $folder/names.missing ]]; then cat "$folder/names.missing" >>"$folder/missing"; fi
  rm -f "$folder/names" "$folder/names.missing"
done
{
  cat <<'TEXT'
# API reference

<!-- Written by ./dev api from the headers. Change their comments, not this page. -->

Every public name, with what its header says of it. The names are in the namespace `caravan`, layers in `caravan::nn`, data in
`caravan::data`, pictures in `caravan::plot`. The functions that work on each element (`exp`, `relu`, `max`, ...) are listed with their
derivatives in [ops.md](../ops.md).

| header to include | what it has |
|---|---|
TEXT
  sed -nE 's/^(caravan[^ ]+) +(.*)/| `<\1>` | \2 |/p' cmake/public_headers.txt
  cat <<'TEXT'

| page | names |
|---|---|
TEXT
  for layer in $(printf '%s\n' "${!pages[@]}" | sort); do
    printf '| [%s](%s.md) | %s |\n' "$layer" "$layer" "$(awk -F '\t' -v page="$layer.md" '
      index($2, page "#") == 1 && $1 !~ /operator/ { printf "%s[`%s`](%s)", (n++ ? ", " : ""), $1, $2 }' "$folder/index")"
  done
} >"$folder/README.md"

if [[ -s $folder/missing ]]; then
  cat "$folder/missing" >&2
  echo "api: $(wc -l <"$folder/missing") public names have no comment in their header" >&2
  [[ -n $check ]] && exit 1
fi
rm -f "$folder/index" "$folder/missing"
if [[ -n $check ]] && ! diff -r "$folder" docs/api >&2; then
  echo "api: docs/api is not what the headers say. Run ./dev api" >&2
  exit 1
fi
