// The byte pairs of GPT-2 (Radford et al. 2019).
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "caravan/base/error.h"
#include "caravan/base/printable.h"
#include "caravan/base/utf8.h"
#include "caravan/data/gpt2_words.h"
#include "caravan/data/gzip.h"
#include "caravan/data/json_text.h"
#include "caravan/data/pair_merges.h"
#include "caravan/data/places.h"
#include "caravan/data/text.h"
#include "caravan/data/vocabularies.h"

namespace caravan::data {

namespace {

constexpr std::string_view kEndOfText = "<|endoftext|>";

// The files write a byte as a character: the printable ones of Latin-1 as themselves, the others as U+0100, U+0101, ...
// in their order, so that a blank is U+0120.
class ByteAlphabet {
 public:
  ByteAlphabet() {
    uint32_t other = 0x100;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
      codes_[byte] = printable ? byte : other++;
      bytes_.emplace(codes_[byte], char(byte));
    }
  }
  std::string written(std::string_view bytes) const {
    std::string out;
    for (const char byte : bytes) {
      const uint32_t code = codes_[uint8_t(byte)];
      if (code >= 0x80) out += char(0xc0 | code >> 6);  // all codes are below 0x800
      out += char(code >= 0x80 ? 0x80 | (code & 63) : code);
    }
    return out;
  }
  // Nothing where a character stands for no byte.
  std::optional<std::string> bytes(std::string_view written) const {
    std::string out;
    while (!written.empty()) {
      const Utf8Character c = first_character(written);
      const auto found = bytes_.find(c.code);
      if (!c.valid || found == bytes_.end()) return std::nullopt;
      out += found->second;
      written.remove_prefix(c.bytes);
    }
    return out;
  }

 private:
  std::array<uint32_t, 256> codes_{};           // by byte
  std::unordered_map<uint32_t, char> bytes_{};  // by code
};
const ByteAlphabet& alphabet() {
  static const ByteAlphabet out;
  return out;
}

class Gpt2 : public Vocabulary {
 public:
  // Pieces by id and lines of merges, as the files write them.
  Gpt2(const std::vector<std::string>& pieces, const std::string& pieces_file, const std::vector<std::string>& merges,
       const std::string& merges_file) {
    std::unordered_map<std::string, int32_t> ids;  // of the pieces, as they are written
    for (const std::string& written : pieces) {
      const auto bytes = alphabet().bytes(written);
      if (!bytes || bytes->empty())
        refuse_tokenizer(pieces_file, fmt::format("the piece {} does not stand for bytes", shown(written)));
      if (!ids.emplace(written, int32_t(pieces_.size())).second)
        refuse_tokenizer(pieces_file, fmt::format("it has the piece {} twice", shown(written)));
      pieces_.push_back(*bytes);
    }
    std::vector<bool> made(pieces_.size());  // by the merges so far
    for (int byte = 0; byte < 256; ++byte) {
      const auto found = ids.find(alphabet().written(std::string(1, char(byte))));
      if (found == ids.end()) refuse_tokenizer(pieces_file, fmt::format("it has no piece for the byte 0x{:02x}", byte));
      byte_ids_[size_t(byte)] = found->second;
      made[size_t(found->second)] = true;
    }
    if (const auto found = ids.find(std::string(kEndOfText)); found != ids.end()) end_ = found->second;

    for (size_t rank = 0; rank < merges.size(); ++rank) {
      const std::string& line = merges[rank];
      const auto refuse = [&](const std::string& problem) {
        refuse_tokenizer(merges_file, fmt::format("merge {}, {}, {}", rank + 1, shown(line), problem));
      };
      const size_t blank = line.find(' ');
      if (blank == line.npos || blank == 0 || blank + 1 == line.size() || line.find(' ', blank + 1) != line.npos)
        refuse("is not two pieces with a blank between them");
      const std::string parts[] = {line.substr(0, blank), line.substr(blank + 1)};
      int32_t pair[2];
      for (int i = 0; i < 2; ++i) {
        const auto found = ids.find(parts[i]);
        if (found == ids.end()) refuse(fmt::format("has {}, which is not in the vocabulary", shown(parts[i])));
        // Only because pieces are made before they are used, merging the most urgent pair at once gives the same as
        // merging it everywhere before any other is looked for, as GPT-2's program does.
        if (!made[size_t(found->second)]) refuse(fmt::format("uses {} before a merge makes it", shown(parts[i])));
        pair[i] = found->second;
      }
      const auto whole = ids.find(parts[0] + parts[1]);
      if (whole == ids.end()) refuse("gives a piece that is not in the vocabulary");
      if (!merges_.emplace(key(pair[0], pair[1]), PairMerge{double(rank), whole->second}).second)
        refuse("is there twice");
      merge_order_.emplace_back(pair[0], pair[1]);
      made[size_t(whole->second)] = true;
    }
    for (size_t id = 0; id < made.size(); ++id)  // <|endoftext|> and its like are not made of bytes
      if (!made[id] && !(pieces_[id].starts_with('<') && pieces_[id].ends_with('>')))
        refuse_tokenizer(merges_file, fmt::format("no merge makes {} of `{}`; it is truncated, or belongs to another "
                                                  "vocabulary",
                                                  shown(pieces[id]), printable(pieces_file)));
  }

  int64_t size() const override { return int64_t(pieces_.size()); }
  std::string piece(int32_t id) const override { return pieces_[size_t(id)]; }
  std::optional<int32_t> start() const override { return end_; }
  std::optional<int32_t> end() const override { return end_; }

  Ids encode(std::string_view text) const override {
    Ids out;
    std::unordered_map<std::string_view, Ids> known;  // words come again and again
    while (!text.empty()) {
      const std::string_view word = text.substr(0, first_word(text));
      const auto [found, is_new] = known.try_emplace(word);
      if (is_new) found->second = encode_word(word);
      out.insert(out.end(), found->second.begin(), found->second.end());
      text.remove_prefix(word.size());
    }
    return out;
  }

  std::string text() const override {
    nlohmann::json pieces = nlohmann::json::array(), merges = nlohmann::json::array();
    for (const std::string& piece : pieces_) pieces.push_back(alphabet().written(piece));
    for (const auto& [left, right] : merge_order_)
      merges.push_back(alphabet().written(piece(left)) + " " + alphabet().written(piece(right)));
    return nlohmann::json{{"tokenizer", kGpt2}, {"pieces", pieces}, {"merges", merges}}.dump();
  }

 private:
  static uint64_t key(int32_t left, int32_t right) { return uint64_t(uint32_t(left)) << 32 | uint32_t(right); }

  Ids encode_word(std::string_view word) const {
    Ids ids;
    for (const char byte : word) ids.push_back(byte_ids_[uint8_t(byte)]);
    return merge_pairs(std::move(ids), [&](int32_t left, int32_t right) -> std::optional<PairMerge> {
      const auto found = merges_.find(key(left, right));
      return found == merges_.end() ? std::nullopt : std::optional(found->second);
    });
  }

  std::vector<std::string> pieces_{};                       // as bytes, by id
  std::array<int32_t, 256> byte_ids_{};                     // of the pieces of one byte
  std::unordered_map<uint64_t, PairMerge> merges_{};        // by `key`
  std::vector<std::pair<int32_t, int32_t>> merge_order_{};  // by rank
  std::optional<int32_t> end_{};
};

// The pieces by id, from {"piece": id, ...}.
std::vector<std::string> pieces_of(const TextFile& file) {
  if (const auto problem = json_problem(file.content, 1)) refuse_tokenizer(file.path, "it " + *problem);
  const nlohmann::json object = nlohmann::json::parse(file.content);
  if (!object.is_object()) refuse_tokenizer(file.path, "it is not an object that has an id for each piece");
  std::vector<std::string> out(object.size());
  for (const auto& [piece, id] : object.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= out.size())
      refuse_tokenizer(file.path, fmt::format("the id of {} is {}, and those of {} pieces are 0 to {}", shown(piece),
                                              shown(id.dump()), out.size(), out.size() - 1));
    std::string& place = out[id.get<size_t>()];
    if (!place.empty())
      refuse_tokenizer(file.path, fmt::format("{} and {} have the same id, {}", shown(place), shown(piece), id.dump()));
    place = piece;
  }
  return out;
}

TextFile either_file(const std::string& folder, const char* name, const char* other) {
  for (const char* file : {name, other})
    if (const auto path = find_file(folder, file)) return {*path, read_unpacked(*path)};
  throw ConfigError(fmt::format("`{}` has neither {} nor {}, packed or not; give the folder of a tokenizer of GPT-2.",
                                printable(folder), name, other));
}

}  // namespace

Tokenizer parse_gpt2_tokenizer(const TextFile& vocabulary, const TextFile& merges) {
  std::vector<std::string> lines_of_merges = lines(merges.content);
  if (!lines_of_merges.empty() && lines_of_merges[0].starts_with("#version"))
    lines_of_merges.erase(lines_of_merges.begin());
  std::erase(lines_of_merges, "");
  return Tokenizer(std::make_shared<Gpt2>(pieces_of(vocabulary), vocabulary.path, lines_of_merges, merges.path));
}

Tokenizer read_gpt2_tokenizer(const std::string& folder) {
  const TextFile vocabulary = either_file(folder, "encoder.json", "vocab.json");
  return parse_gpt2_tokenizer(vocabulary, either_file(folder, "vocab.bpe", "merges.txt"));
}

Tokenizer gpt2_of(const nlohmann::json& object, const std::string& file) {
  const std::vector<std::string> pieces = texts_of(object, "pieces", file);
  return Tokenizer(std::make_shared<Gpt2>(pieces, file, texts_of(object, "merges", file), file));
}

}  // namespace caravan::data
