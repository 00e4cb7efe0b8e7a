#include "caravan/deploy/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "caravan/base/random.h"
#include "caravan/codegen/plain.h"

namespace caravan::deploy {

namespace {

constexpr size_t kPieceColumns = 116;

// Three octal digits end an escape, whatever follows it. `?` is escaped because C99 has trigraphs.
std::string quoted(const std::string& bytes) {
  std::string out = "\"";
  for (const char c : bytes) {
    const auto byte = uint8_t(c);
    if (c == '"' || c == '\\' || c == '?')
      out += std::string("\\") + c;
    else
      out += byte >= 0x20 && byte < 0x7f ? std::string(1, c) : fmt::format("\\{:03o}", byte);
  }
  return out + "\"";
}

std::string listed(const std::vector<std::string>& items) {
  std::string lines, line = " ";
  for (const std::string& item : items) {
    if (line.size() + item.size() + 2 > kPieceColumns) lines += line + "\n", line = " ";
    line += " " + item + ",";
  }
  return lines + line + "\n";
}

// {0} the prefix, {1} in capitals, {2} the weights as a parameter, {3} fields of a text, {4} the end token
constexpr const char* kDeclarations = R"C(
/* The text of every token. It may have any bytes; a 0 follows the last one. */
typedef struct {{
  const char* text;
  int bytes;
}} {0}_piece;
extern const {0}_piece {0}_pieces[{1}_OUTPUT_SIZE];
{4}
/* A text that is being written, with all that the model remembers of it. */
typedef struct {{
{3}  {0}_scratch scratch;
  float logits[{1}_OUTPUT_SIZE];  /* of the token that comes next */
}} {0}_text;
void {0}_start({2}{0}_text* text);              /* a new text, with no token of its own yet */
void {0}_add({2}{0}_text* text, int32_t token);

/* How a token is chosen: a temperature of 0 takes the likeliest token; a top_k of 0 and a top_p of 1 keep all. */
typedef struct {{
  double temperature, top_p;
  int64_t top_k;
  uint64_t seed;
}} {0}_sampling;
/* The token that comes next. `position` counts the tokens that were chosen before in this text. */
int32_t {0}_choose(const float* logits, const {0}_sampling* sampling, uint64_t position);
/* The seed of text number `number`, 0, 1, .., of those that one seed gives. */
uint64_t {0}_seed(uint64_t seed, uint64_t number);
)C";

// {0} the prefix, {1} in capitals, {2} the hash of the random numbers' name
constexpr const char* kChoose = R"C(
static const uint64_t {0}_stream = UINT64_C({2});  /* names the random numbers */

int32_t {0}_choose(const float* logits, const {0}_sampling* sampling, uint64_t position) {{
  float scores[{1}_OUTPUT_SIZE];
  int32_t order[{1}_OUTPUT_SIZE], best = 0, kept = {1}_OUTPUT_SIZE;
  double total = 0, left;
  for (int32_t i = 1; i < {1}_OUTPUT_SIZE; ++i)
    if (logits[i] > logits[best]) best = i;
  if (sampling->temperature == 0) return best;
  for (int32_t i = 0; i < {1}_OUTPUT_SIZE; ++i) {{
    scores[i] = (float)exp(((double)logits[i] - logits[best]) / sampling->temperature);
    order[i] = i;
  }}
  if (sampling->top_k > 0 && sampling->top_k < kept) kept = (int32_t)sampling->top_k;
  if (kept < {1}_OUTPUT_SIZE || sampling->top_p < 1) {{
    for (int32_t k = 0; k < kept; ++k) {{  /* the likeliest first, of equal ones the lowest */
      int32_t most = k, token;
      for (int32_t i = k + 1; i < {1}_OUTPUT_SIZE; ++i) {{
        const float more = scores[order[i]] - scores[order[most]];
        if (more > 0 || (more == 0 && order[i] < order[most])) most = i;
      }}
      token = order[k], order[k] = order[most], order[most] = token;
    }}
  }}
  for (int32_t k = 0; k < kept; ++k) total += scores[order[k]];
  if (sampling->top_p < 1) {{
    const double enough = sampling->top_p * total;
    total = 0;
    for (int32_t k = 0; k < kept; ++k)
      if ((total += scores[order[k]]) >= enough) kept = k + 1;
  }}
  left = (double)({0}_random(sampling->seed, {0}_stream, position, 0, 0) >> 8) / 16777216 * total;
  for (int32_t k = 0; k + 1 < kept; ++k)
    if ((left -= scores[order[k]]) < 0) return order[k];
  return order[kept - 1];
}}

uint64_t {0}_seed(uint64_t seed, uint64_t number) {{
  return (uint64_t){0}_random(seed, {0}_stream, number, 0, 0) << 32 | {0}_random(seed, {0}_stream, number, 0, 1);
}}
)C";

// {0} the prefix, {1} the weights as a parameter, {2} as an argument, {3} the size of the context, {4} how many tokens
// are kept beside the newest, {5} the first of them
constexpr const char* kAddToCaches = R"C(
void {0}_add({1}{0}_text* text, int32_t token) {{
  if (text->size == {3}) {{  /* the context is full: the model goes on with the last half */
    {0}_begin(&text->state);
    for (text->size = 0; text->size < {4}; ++text->size) {{
      text->recent[text->size] = text->recent[text->size + {5}];
      {0}_run({2}&text->recent[text->size], text->logits, text->size, &text->state, &text->scratch);
    }}
  }}
  text->recent[text->size] = token;
  {0}_run({2}&token, text->logits, text->size++, &text->state, &text->scratch);
}}
)C";

// {0} the prefix, {1} how many texts, {2} and tokens of each, {3} reads the weights, {4} the first other argument,
// {5} what the usage calls them, {6} what {0}_start and {0}_add are given of them, {7} writes the prompt, {8} ends a
// text
constexpr const char* kMain = R"C(#include <stdio.h>
#include <stdlib.h>

/* Writes texts: those of `caravan sample` with the same --seed, --count, --temperature and --tokens. */
int main(int count, char** arguments) {{
  static {0}_text text;
  double numbers[4] = {{1, {1}, 1, {2}}};
{3}  for (int i = 0; i < count - {4}; ++i) {{
    const char* const given = arguments[{4} + i];
    char* end;
    const double number = strtod(given, &end);
    if (i >= 4 || end == given || *end != 0 || !(number >= 0 && number <= 9007199254740992.0)) {{
      fprintf(stderr, "usage: %s{5} [SEED [COUNT [TEMPERATURE [TOKENS]]]]; `%s` does not fit\n", arguments[0], given);
      return 2;
    }}
    numbers[i] = number;
  }}
  for (int64_t number = 0; number < (int64_t)numbers[1]; ++number) {{
    {0}_sampling sampling = {{numbers[2], 1, 0, 0}};
    char last = 0;
    sampling.seed = {0}_seed((uint64_t)numbers[0], (uint64_t)number);
    {0}_start({6}&text);
{7}    for (int64_t position = 0; position < (int64_t)numbers[3]; ++position) {{
      const int32_t token = {0}_choose(text.logits, &sampling, (uint64_t)position);
      const {0}_piece piece = {0}_pieces[token];
{8}      fwrite(piece.text, 1, (size_t)piece.bytes, stdout);
      if (piece.bytes > 0) last = piece.text[piece.bytes - 1];
      {0}_add({6}&text, token);
    }}
    if (last != '\n') putchar('\n');
  }}
  return fflush(stdout) == 0 ? 0 : 1;
}}
)C";

}  // namespace

TextCode text_code(const CText& text, const StepFacts& step) {
  const std::string &prefix = step.prefix, &macro = step.macro;
  const std::string parameter = step.weights_inside ? "" : fmt::format("const {}_weights* weights, ", prefix);
  const std::string argument = step.weights_inside ? "" : "weights, ";
  std::string fields;
  if (step.index)
    fields += fmt::format(
        "  int32_t recent[{}];  /* the tokens that the model sees */\n  int64_t size;  /* of them */\n", text.context);
  if (step.state) fields += fmt::format("  {}_state state;\n", prefix);
  const std::string end =
      text.end ? fmt::format("#define {}_END {}  /* the token that ends a text */\n", macro, *text.end) : "";

  TextCode out;
  out.declarations = fmt::format(kDeclarations, prefix, macro, parameter, fields, end);

  std::vector<std::string> pieces;
  for (const std::string& piece : text.pieces) pieces.push_back(fmt::format("{{{}, {}}}", quoted(piece), piece.size()));
  const std::string stream = fmt::format("0x{:016x}", hash_name("sample"));
  out.definitions =
      fmt::format("\nconst {0}_piece {0}_pieces[{1}_OUTPUT_SIZE] = {{\n{2}}};\n", prefix, macro, listed(pieces));
  out.definitions += codegen::plain_helpers({"random"}, prefix) + fmt::format(kChoose, prefix, macro, stream);
  if (step.index) {
    const int64_t kept = std::max<int64_t>(text.context / 2, 1) - 1;
    out.definitions += fmt::format(kAddToCaches, prefix, parameter, argument, text.context, kept, text.context - kept);
  } else {
    out.definitions += fmt::format(
        "\nvoid {0}_add({1}{0}_text* text, int32_t token) {{\n  {0}_run({2}&token, text->logits, "
        "{3}&text->scratch);\n}}\n",
        prefix, parameter, argument, step.state ? "&text->state, " : "");
  }
  out.definitions += fmt::format(
      "\nvoid {0}_start({1}{0}_text* text) {{\n  static const int32_t first[{2}] = {{{3}}};\n{4}{5}"
      "  for (int i = 0; i < {2}; ++i) {0}_add({6}text, first[i]);\n}}\n",
      prefix, parameter, text.first.size(), fmt::join(text.first, ", "), step.index ? "  text->size = 0;\n" : "",
      step.state ? fmt::format("  {}_begin(&text->state);\n", prefix) : "", argument);

  const std::string ends = text.end ? fmt::format("      if (token == {}_END) break;\n", macro) : "";
  std::string prompt;
  if (!text.prompt.empty())
    prompt = fmt::format("    last = {0}[{2}];\n    fwrite({0}, 1, {1}, stdout);\n", quoted(text.prompt),
                         text.prompt.size(), text.prompt.size() - 1);
  out.main = fmt::format(kMain, prefix, text.texts, text.tokens, step.load, step.weights_inside ? 1 : 2,
                         step.weights_inside ? "" : " WEIGHTS", step.weights_inside ? "" : "&weights, ", prompt, ends);
  return out;
}

}  // namespace caravan::deploy
