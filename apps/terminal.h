// What can be shown to whoever reads: how wide a line may be, colours, characters beyond ASCII, lines that are redrawn.
//
// Obeys NO_COLOR, TERM=dumb, COLUMNS, and LC_ALL, LC_CTYPE, LANG, of which the first that is set must name UTF-8.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace caravan::app {

enum class Style : uint8_t { strong, faint, red, green, yellow, blue };

struct Screen {
  int width = 80;       // columns
  bool colour = false;  // escape sequences are understood and wanted

  std::string styled(Style style, std::string_view text) const;  // the text as it is where there is no colour
  std::string fact(std::string_view key,
                   std::string_view text) const;  // a line "key      text", broken where it must be
  std::string command(std::string_view key,
                      std::string_view text) const;  // the same, never broken, so that it can be copied
  // A drawing, which begins with its title and an empty line: the title is broken where it must be, and below it each
  // of these characters has its style.
  std::string drawing(std::string_view text, const std::vector<std::pair<std::string_view, Style>>& marks = {}) const;
};
Screen output_screen();  // of standard output; a pipe is 80 columns wide
Screen error_screen();   // of standard error

bool redraws();  // a line of standard error can be drawn again in place

// The text broken at spaces into lines of at most `width` columns.
std::string wrapped(std::string_view text, int width);
std::string indented(std::string lines, int columns);  // all but the first

// From here to the end of the scope, where the locale has no UTF-8, what std::cout and std::cerr are given is written
// in ASCII: the signs that drawings and texts of this program use as others that look like them.
class AsciiWhereNeeded {
 public:
  AsciiWhereNeeded();
  ~AsciiWhereNeeded();
  AsciiWhereNeeded(const AsciiWhereNeeded&) = delete;
  AsciiWhereNeeded& operator=(const AsciiWhereNeeded&) = delete;

 private:
  std::streambuf *out_ = nullptr, *err_ = nullptr;  // what they wrote to; null: they are as they were
};
std::string in_ascii(std::string_view text);

}  // namespace caravan::app
