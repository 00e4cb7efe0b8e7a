// Text as ids, and back. A vocabulary numbers the pieces that texts are made of.
//
//     Tokenizer letters = characters(text);  // every character of a text is a piece
//     Ids ids = letters.encode("to be");
//     letters.decode(ids);                   // "to be"
//
// A text is any sequence of bytes: bytes that are not UTF-8 are kept as they are.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "caravan/base/handle.h"

namespace caravan::data {

using Ids = std::vector<int32_t>;  // the numbers of pieces, in the order of the text

// What a Tokenizer is made of. Derive from it for a vocabulary of your own. It never changes, so threads may share it.
class Vocabulary {
 public:
  virtual ~Vocabulary() = default;
  virtual int64_t size() const = 0;                            // the ids are 0 .. size - 1
  virtual Ids encode(std::string_view text) const = 0;         // the pieces that a text is made of
  virtual std::string piece(int32_t id) const = 0;             // the bytes of an id in range
  virtual std::string decode(std::span<const int32_t>) const;  // of ids in range: by default, piece after piece
  virtual std::optional<int32_t> start() const;                // by default, there is none
  virtual std::optional<int32_t> end() const;                  // by default, there is none
  virtual std::string text() const = 0;                        // what parse_tokenizer reads
};

// A cheap value handle of a vocabulary; copies share it.
class Tokenizer {
 public:
  explicit Tokenizer(std::shared_ptr<const Vocabulary> vocabulary);

  int64_t size() const { return vocabulary_->size(); }  // the number of ids, which are 0 .. size - 1
  // The ids of a text, without `start` and `end`. ConfigError naming the symbol and its position where the text has one
  // that the vocabulary has not.
  Ids encode(std::string_view text) const { return vocabulary_->encode(text); }
  // The text of ids: decode(encode(text)) == text. StateError for an id out of range.
  std::string decode(std::span<const int32_t> ids) const;
  // The bytes of one id, for text that is printed as it is made. They may be a part of a UTF-8 character.
  std::string piece(int32_t id) const;
  std::optional<int32_t> start() const { return vocabulary_->start(); }  // what a text begins with, if anything
  std::optional<int32_t> end() const { return vocabulary_->end(); }      // what a text ends with, if anything
  // The whole vocabulary as JSON in one line, which the metadata of a checkpoint can hold; parse_tokenizer reads it.
  std::string text() const { return vocabulary_->text(); }

 private:
  void check(int32_t id) const;
  Handle<const Vocabulary> vocabulary_;
};

// The tokenizer that gave this `text`. ConfigError where none did; `file` names in the message where it was found.
Tokenizer parse_tokenizer(std::string_view text, const std::string& file);

// Symbols that a vocabulary of characters has besides those of its text.
struct CharacterOptions {
  std::string boundary{};  // one character that stands before and after every text; its id is 0
  std::string also{};      // characters that the vocabulary has even if the text does not
};
// Every distinct character of a text, in the order of code points. A byte that belongs to no valid UTF-8 character is a
// symbol of its own; such symbols come last. ConfigError where there is no symbol at all.
Tokenizer characters(std::string_view text, const CharacterOptions& options = {});
// The same of many texts: characters(names, {.boundary = "."}) is the vocabulary of makemore.
Tokenizer characters(const std::vector<std::string>& texts, const CharacterOptions& options = {});

// A text and where it is from, for messages.
struct TextFile {
  std::string path, content;  // the file, and all that it holds
};
// GPT-2's byte pairs. Every sequence of bytes can be encoded. `start` and `end` are both <|endoftext|>, which stood
// between the texts that GPT-2 has learnt from: a model that is to begin a text is given this id alone, and a prompt is
// given without it. `encode` takes "<|endoftext|>" in a text for ordinary characters.
//
// A folder has encoder.json and vocab.bpe, or vocab.json and merges.txt, which are the same files; packed or not.
// ConfigError, one sentence, for everything that is wrong with them.
Tokenizer read_gpt2_tokenizer(const std::string& folder);
// The same from texts in memory: the ids of all pieces as JSON, and the pairs that become one piece, one a line.
Tokenizer parse_gpt2_tokenizer(const TextFile& vocabulary, const TextFile& merges);

// The tokenizer of a Llama model, from the file tokenizer.bin of llama2.c: pieces with scores; the pair of neighbours
// whose piece has the highest score becomes one. A character that is no piece is encoded as its bytes. Every text is
// encoded with a blank before it, which `decode` takes away again. `start` is 1, `end` is 2; as text they are empty.
// ConfigError, one sentence, for everything that is wrong with the file.
Tokenizer read_llama_tokenizer(const std::string& path);
Tokenizer parse_llama_tokenizer(std::string_view content, const std::string& file);  // the same from bytes in memory

}  // namespace caravan::data
