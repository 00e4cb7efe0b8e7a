#include "apps/recipes/text_data.h"

#include <fmt/format.h>

#include "apps/figures.h"
#include "apps/recipes/made_text.h"
#include "caravan/base/error.h"
#include "caravan/base/printable.h"
#include "caravan/data/gzip.h"
#include "caravan/data/sha256.h"
#include "caravan/data/text.h"

namespace caravan::app {

namespace {

constexpr int64_t kMadeNameCount = 8'000, kMadeLines = 8'000;  // enough to learn from, and made in a moment

// The only file of a data set; nothing where it is not here and none was asked for.
std::optional<FoundText> find(std::string_view set, const data::Places& places) {
  const auto folder = data::find_dataset(set, places);
  if (!folder && !places.given.empty()) throw ConfigError(data::missing_message(set, places));
  if (!folder) return std::nullopt;
  const data::DatasetFile& file = data::dataset(set).files[0];
  FoundText out{data::read_unpacked(*data::find_file(*folder, file.name)), *folder, {}};
  out.sum = data::sha256(out.content);
  out.stand_in = places.given.empty() && out.sum != file.sha256;
  return out;
}

FoundText made(std::string content, const char* source) {
  const std::string sum = data::sha256(content);
  return {std::move(content), source, sum, true};
}

std::vector<std::string> names_of(const FoundText& text) {
  std::vector<std::string> out = data::lines(text.content);
  std::erase(out, "");
  constexpr size_t kFewest = 10;  // so that no part is empty
  if (out.size() < kFewest)
    throw ConfigError(fmt::format("{} has {} names; at least {} are needed, for the parts train, dev and test.",
                                  text.source, out.size(), kFewest));
  return out;
}

}  // namespace

FoundText find_names(const Request& request) {
  if (std::optional<FoundText> found = find("names", request.places)) return *found;
  std::string content;
  for (const std::string& name : made_names(kMadeNameCount, request.seed)) content += name + '\n';
  return made(std::move(content), kMadeNames);
}

FoundText find_shakespeare(const Request& request) {
  if (std::optional<FoundText> found = find("tinyshakespeare", request.places)) return *found;
  return made(made_verses(kMadeLines, request.seed), kMadeText);
}

data::Tokenizer letters_of(const Request& request, const FoundText& names) {
  if (request.vocabulary.empty()) return data::characters(names_of(names), {.boundary = ".", .also = " "});
  data::Tokenizer out = data::parse_tokenizer(request.vocabulary, "the checkpoint");
  if (!out.start() || !out.end())
    throw ConfigError("the vocabulary of the checkpoint has no symbol for the start and the end of a name.");
  return out;
}
data::Tokenizer letters_of(const Request& request) {
  return letters_of(request, request.vocabulary.empty() ? find_names(request) : FoundText{});
}

data::Tokenizer characters_of(const Request& request, const FoundText& text) {
  if (request.vocabulary.empty() && text.content.empty())
    throw ConfigError(fmt::format("the text of {} is empty.", text.source));
  return request.vocabulary.empty() ? data::characters(text.content)
                                    : data::parse_tokenizer(request.vocabulary, "the checkpoint");
}
data::Tokenizer characters_of(const Request& request) {
  return characters_of(request, request.vocabulary.empty() ? find_shakespeare(request) : FoundText{});
}

std::vector<TextPart> name_parts(const FoundText& names, const data::Tokenizer& letters, const TextModel& model,
                                 uint64_t seed) {
  const auto parts = data::split(names_of(names), {0.8, 0.1, 0.1}, seed);
  auto examples = [&](const std::vector<std::string>& part) {
    return model.window ? data::contexts(part, letters, model.context)
                        : data::whole_texts(part, letters, model.context);
  };
  return {{"train", examples(parts[0])}, {"dev", examples(parts[1])}, {"test", examples(parts[2])}};
}

VerseData verse_data(const FoundText& text, const data::Tokenizer& characters, const TextModel& model) {
  const data::TextParts parts = data::split_text(characters.encode(text.content));
  if (const auto judged = int64_t(parts.validation.size()); judged <= model.context)
    throw ConfigError(fmt::format(
        "the text of {} is too short: its last tenth, by which the model is judged, has {}, and {} are needed.",
        text.source, counted(judged, "character", "characters"), model.context + 1));
  auto examples = [&](const data::Ids& ids, int64_t every) {
    const Array all = data::even_starts(int64_t(ids.size()), model.context);
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < all.size(); i += every) rows.push_back(i);
    return data::windows(ids, all.take(rows), model.context);
  };
  // Of the train text every ninth window is judged, about as many as the other part has.
  return {{{"train", examples(parts.train, 9)}, {"validation", examples(parts.validation, 1)}},
          data::text_table(parts.train)};
}

}  // namespace caravan::app
