// tokenizer.bin of llama2.c: the pieces of a SentencePiece model and their scores (Kudo and Richardson 2018).
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "caravan/base/error.h"
#include "caravan/base/utf8.h"
#include "caravan/data/gzip.h"
#include "caravan/data/json_text.h"
#include "caravan/data/pair_merges.h"
#include "caravan/data/vocabularies.h"

namespace caravan::data {

namespace {

// The first pieces are <unk>, <s>, </s>, then <0x00> to <0xFF>. They are not looked for in a text.
constexpr int32_t kStartId = 1, kEndId = 2, kFirstByte = 3, kFirstPiece = kFirstByte + 256;

struct ScoredPiece {
  std::string piece;
  float score = 0;
};

class Llama : public Vocabulary {
 public:
  Llama(std::vector<ScoredPiece> pieces, const std::string& file) : pieces_(std::move(pieces)) {
    if (size() < kFirstPiece)
      refuse_tokenizer(file, fmt::format("it has {} pieces, and needs {}: <unk>, <s>, </s> and one for each byte",
                                         size(), kFirstPiece));
    for (int32_t id = 0; id < size(); ++id) {
      const auto& [piece, score] = pieces_[size_t(id)];
      const char* problem = piece.empty() ? "is empty" : !is_utf8(piece) ? "is not UTF-8" : "has no finite score";
      if (piece.empty() || !is_utf8(piece) || !std::isfinite(score))
        refuse_tokenizer(file, fmt::format("its piece {}, {}, {}", id, shown(piece), problem));
      if (id >= kFirstByte && id < kFirstPiece && piece != fmt::format("<0x{:02X}>", id - kFirstByte))
        refuse_tokenizer(
            file, fmt::format("its piece {} is {}, and should be <0x{:02X}>", id, shown(piece), id - kFirstByte));
      if (id >= kFirstPiece && !ids_.emplace(piece, id).second)
        refuse_tokenizer(file, fmt::format("it has the piece {} twice", shown(piece)));
    }
  }

  int64_t size() const override { return int64_t(pieces_.size()); }
  std::optional<int32_t> start() const override { return kStartId; }
  std::optional<int32_t> end() const override { return kEndId; }

  std::string piece(int32_t id) const override {
    if (id == kStartId || id == kEndId) return "";
    if (id >= kFirstByte && id < kFirstPiece) return std::string(1, char(id - kFirstByte));
    return pieces_[size_t(id)].piece;
  }
  std::string decode(std::span<const int32_t> ids) const override {
    std::string out = Vocabulary::decode(ids);
    if (out.starts_with(' ')) out.erase(0, 1);
    return out;
  }

  Ids encode(std::string_view text) const override {
    if (text.empty()) return {};
    Ids ids;
    add(ids, " ");
    while (!text.empty()) {
      const std::string_view character = text.substr(0, first_character(text).bytes);
      add(ids, character);
      text.remove_prefix(character.size());
    }
    std::string both;
    return merge_pairs(std::move(ids), [&](int32_t left, int32_t right) -> std::optional<PairMerge> {
      if (left < kFirstPiece || right < kFirstPiece) return std::nullopt;
      both = pieces_[size_t(left)].piece;
      both += pieces_[size_t(right)].piece;
      const auto found = ids_.find(both);
      if (found == ids_.end()) return std::nullopt;
      return PairMerge{-double(pieces_[size_t(found->second)].score), found->second};
    });
  }

  std::string text() const override {
    nlohmann::json pieces = nlohmann::json::array(), scores = nlohmann::json::array();
    for (const auto& [piece, score] : pieces_) pieces.push_back(piece), scores.push_back(score);
    return nlohmann::json{{"tokenizer", kLlama}, {"pieces", pieces}, {"scores", scores}}.dump();
  }

 private:
  static bool is_utf8(std::string_view text) {
    while (!text.empty()) {
      const Utf8Character c = first_character(text);
      if (!c.valid) return false;
      text.remove_prefix(c.bytes);
    }
    return true;
  }

  // A character, as its piece or as its bytes.
  void add(Ids& ids, std::string_view character) const {
    if (const auto found = ids_.find(std::string(character)); found != ids_.end())
      ids.push_back(found->second);
    else
      for (const char byte : character) ids.push_back(kFirstByte + uint8_t(byte));
  }

  std::vector<ScoredPiece> pieces_;                 // by id
  std::unordered_map<std::string, int32_t> ids_{};  // of those that are looked for
};

// Takes the next number of the file away; nothing where the file ends before it.
template <class Number>
std::optional<Number> taken(std::string_view& rest) {
  if (rest.size() < sizeof(Number)) return std::nullopt;
  Number out;
  std::memcpy(&out, rest.data(), sizeof out);
  rest.remove_prefix(sizeof out);
  return out;
}

}  // namespace

// All numbers are little endian: i32, the bytes of the longest piece; and for each piece f32, its score, i32, its
// number of bytes, and these.
Tokenizer parse_llama_tokenizer(std::string_view content, const std::string& file) {
  std::string_view rest = content;
  const std::optional<int32_t> longest = taken<int32_t>(rest);
  if (!longest || *longest < 1)
    refuse_tokenizer(file,
                     "it does not begin with the length of its longest piece, as a tokenizer.bin of llama2.c does");
  std::vector<ScoredPiece> pieces;
  while (!rest.empty()) {
    const std::optional<float> score = taken<float>(rest);
    const std::optional<int32_t> length = taken<int32_t>(rest);
    if (!score || !length)
      refuse_tokenizer(file, fmt::format("it ends within piece {}; it is truncated", pieces.size()));
    if (*length < 0 || *length > *longest)
      refuse_tokenizer(file, fmt::format("its piece {} has a length of {} bytes, and the longest has {}", pieces.size(),
                                         *length, *longest));
    if (size_t(*length) > rest.size())
      refuse_tokenizer(file,
                       fmt::format("it ends within piece {}, of {} bytes; it is truncated", pieces.size(), *length));
    pieces.push_back({std::string(rest.substr(0, size_t(*length))), *score});
    rest.remove_prefix(size_t(*length));
  }
  return Tokenizer(std::make_shared<Llama>(std::move(pieces), file));
}

Tokenizer read_llama_tokenizer(const std::string& path) { return parse_llama_tokenizer(read_unpacked(path), path); }

Tokenizer llama_of(const nlohmann::json& object, const std::string& file) {
  std::vector<ScoredPiece> pieces;
  for (std::string& piece : texts_of(object, "pieces", file)) pieces.push_back({std::move(piece)});
  const auto scores = object.find("scores");
  if (scores == object.end() || !scores->is_array() || scores->size() != pieces.size())
    refuse_tokenizer(file, "it has not one of `scores` for each of its `pieces`");
  for (size_t i = 0; i < pieces.size(); ++i) {
    const nlohmann::json& score = (*scores)[i];
    if (!score.is_number()) refuse_tokenizer(file, "its `scores` are not all numbers");
    pieces[i].score = score.get<float>();
  }
  return Tokenizer(std::make_shared<Llama>(std::move(pieces), file));
}

}  // namespace caravan::data
