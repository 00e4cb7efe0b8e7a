// A vocabulary of characters.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "caravan/base/error.h"
#include "caravan/base/printable.h"
#include "caravan/base/utf8.h"
#include "caravan/data/json_text.h"
#include "caravan/data/vocabularies.h"

namespace caravan::data {

namespace {

// A symbol as a number: a code point, or a byte that belongs to no character, which comes after all code points.
using Symbol = uint32_t;
constexpr Symbol kCodePoints = 0x110000;

struct Read {
  Symbol symbol;
  std::string_view bytes;
};
Read first_symbol(std::string_view text) {
  const Utf8Character c = first_character(text);
  return {c.valid ? c.code : kCodePoints + uint8_t(text[0]), text.substr(0, c.bytes)};
}

using Symbols = std::map<Symbol, std::string>;  // with their bytes
void add(Symbols& symbols, std::string_view text) {
  while (!text.empty()) {
    const auto [symbol, bytes] = first_symbol(text);
    symbols.try_emplace(symbol, bytes);
    text.remove_prefix(bytes.size());
  }
}

class Characters : public Vocabulary {
 public:
  // The pieces are symbols, each another. If there is a boundary, it is the first of them.
  Characters(std::vector<std::string> pieces, bool boundary) : pieces_(std::move(pieces)), boundary_(boundary) {
    for (size_t id = 0; id < pieces_.size(); ++id) ids_.emplace(first_symbol(pieces_[id]).symbol, int32_t(id));
  }

  int64_t size() const override { return int64_t(pieces_.size()); }
  std::string piece(int32_t id) const override { return pieces_[size_t(id)]; }
  std::optional<int32_t> start() const override { return boundary_ ? std::optional(0) : std::nullopt; }
  std::optional<int32_t> end() const override { return start(); }

  Ids encode(std::string_view text) const override {
    Ids out;
    out.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
      const auto [symbol, bytes] = first_symbol(text.substr(at));
      const auto found = ids_.find(symbol);
      if (found == ids_.end()) refuse(bytes, at);
      out.push_back(found->second);
      at += bytes.size();
    }
    return out;
  }

  // A symbol is a text, or a number if it is a byte that JSON cannot have.
  std::string text() const override {
    nlohmann::json symbols = nlohmann::json::array();
    for (const std::string& piece : pieces_)
      if (first_character(piece).valid)
        symbols.push_back(piece);
      else
        symbols.push_back(uint8_t(piece[0]));
    return nlohmann::json{{"tokenizer", kCharacters}, {"boundary", boundary_}, {"symbols", symbols}}.dump();
  }

 private:
  [[noreturn]] void refuse(std::string_view symbol, size_t at) const {
    std::string known;
    for (const std::string& piece : pieces_) known += piece;
    throw ConfigError(
        fmt::format("the text has {} at byte {}, which is none of the {} characters of the vocabulary: `{}`.",
                    shown(symbol), at, pieces_.size(), printable(known)));
  }

  std::vector<std::string> pieces_;            // by id
  std::unordered_map<Symbol, int32_t> ids_{};  // of the pieces
  bool boundary_;
};

Tokenizer made(Symbols symbols, const CharacterOptions& options) {
  add(symbols, options.also);
  std::vector<std::string> pieces;
  if (!options.boundary.empty()) {
    const auto [symbol, bytes] = first_symbol(options.boundary);
    if (bytes.size() != options.boundary.size())
      throw ConfigError(fmt::format("the boundary of texts is one character, not {}.", shown(options.boundary)));
    symbols.erase(symbol);
    pieces.push_back(options.boundary);
  }
  for (const auto& [symbol, bytes] : symbols) pieces.push_back(bytes);
  if (pieces.empty()) throw ConfigError("a text without characters gives no vocabulary.");
  return Tokenizer(std::make_shared<Characters>(std::move(pieces), !options.boundary.empty()));
}

}  // namespace

Tokenizer characters(std::string_view text, const CharacterOptions& options) {
  Symbols symbols;
  add(symbols, text);
  return made(std::move(symbols), options);
}

Tokenizer characters(const std::vector<std::string>& texts, const CharacterOptions& options) {
  Symbols symbols;
  for (const std::string& text : texts) add(symbols, text);
  return made(std::move(symbols), options);
}

Tokenizer characters_of(const nlohmann::json& object, const std::string& file) {
  const auto boundary = object.find("boundary"), symbols = object.find("symbols");
  if (boundary == object.end() || !boundary->is_boolean() || symbols == object.end() || !symbols->is_array() ||
      symbols->empty())
    refuse_tokenizer(file, "its characters need `boundary`, true or false, and a list of `symbols`");
  std::vector<std::string> pieces;
  Symbols seen;
  for (const nlohmann::json& value : *symbols) {
    std::string piece;
    if (value.is_string())
      piece = value.get<std::string>();
    else if (value.is_number_unsigned() && value.get<uint64_t>() >= 0x80 && value.get<uint64_t>() <= 0xff)
      piece = std::string(1, char(value.get<uint8_t>()));
    if (piece.empty() || first_symbol(piece).bytes.size() != piece.size())
      refuse_tokenizer(file, fmt::format("{} is not one character", shown(value.dump())));
    if (!seen.emplace(first_symbol(piece).symbol, piece).second)
      refuse_tokenizer(file, fmt::format("it has the character {} twice", shown(piece)));
    pieces.push_back(std::move(piece));
  }
  return Tokenizer(std::make_shared<Characters>(std::move(pieces), boundary->get<bool>()));
}

}  // namespace caravan::data
