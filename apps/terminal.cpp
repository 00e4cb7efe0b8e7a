#include "apps/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <streambuf>

#include "caravan/plot/words.h"

namespace caravan::app {

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool dumb() { return environment("TERM") == "dumb"; }

// mpirun gives its first process a terminal even if its own output is a file.
bool under_mpirun() { return !environment("OMPI_COMM_WORLD_SIZE").empty(); }

int width_of(int descriptor) {
  constexpr int kUsual = 80, kLeast = 40, kMost = 240;
  const std::string set = environment("COLUMNS");
  int out = 0;
  std::from_chars(set.data(), set.data() + set.size(), out);
  winsize size{};
  if (out == 0 && isatty(descriptor) && ioctl(descriptor, TIOCGWINSZ, &size) == 0) out = size.ws_col;
  return out == 0 ? kUsual : std::clamp(out, kLeast, kMost);
}

Screen screen_of(int descriptor) {
  return {width_of(descriptor), isatty(descriptor) && !dumb() && environment("NO_COLOR").empty() && !under_mpirun()};
}

bool utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string set = environment(name);
    if (set.empty()) continue;
    std::transform(set.begin(), set.end(), set.begin(), [](unsigned char c) { return char(std::tolower(c)); });
    return set.find("utf-8") != set.npos || set.find("utf8") != set.npos;
  }
  return false;
}

// Escape sequences take no room.
int64_t columns_of(std::string_view text) {
  std::string shown;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\x1b')
      at = std::min(text.find('m', at), text.size());
    else
      shown += text[at];
  }
  return plot::columns(shown);
}

struct Sign {
  std::string_view sign, ascii;
};
constexpr Sign kSigns[] = {
    {"│", "|"},  {"┤", "|"},  {"├", "|"}, {"└", "+"}, {"┘", "+"},  {"┌", "+"},  {"┐", "+"},  {"─", "-"},  {"•", "*"},
    {"○", "o"},  {"█", "#"},  {"▓", "%"}, {"▒", "+"}, {"░", "."},  {"▀", "\""}, {"▄", "="},  {"▁", "_"},  {"▂", "."},
    {"▃", "-"},  {"▅", "+"},  {"▆", "*"}, {"▇", "%"}, {"▕", "|"},  {"▏", "|"},  {"▎", "|"},  {"▍", "|"},  {"▌", "|"},
    {"▋", "#"},  {"▊", "#"},  {"▉", "#"}, {"µ", "u"}, {"·", ","},  {"×", "x"},  {"²", "^2"}, {"→", "->"}, {"≤", "<="},
    {"≥", ">="}, {"…", ".."}, {"–", "-"}, {"’", "'"}, {"“", "\""}, {"”", "\""},
};

// Passes on what it is given. A character may come in two pieces, so what may be the beginning of one waits.
class AsciiBuffer : public std::streambuf {
 public:
  explicit AsciiBuffer(std::streambuf* to) : to_(to) {}

 private:
  int_type overflow(int_type c) override {
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    const char one = traits_type::to_char_type(c);
    return xsputn(&one, 1) == 1 ? c : traits_type::eof();
  }
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    waiting_.append(text, size_t(count));
    size_t whole = waiting_.size();
    for (size_t back = 1; back <= std::min<size_t>(3, waiting_.size()); ++back) {
      const auto byte = static_cast<unsigned char>(waiting_[waiting_.size() - back]);
      if (byte >> 6 == 2) continue;
      const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
      if (length > back) whole = waiting_.size() - back;
      break;
    }
    const std::string shown = in_ascii(std::string_view(waiting_).substr(0, whole));
    waiting_.erase(0, whole);
    const bool written = to_->sputn(shown.data(), std::streamsize(shown.size())) == std::streamsize(shown.size());
    return written ? count : 0;
  }
  int sync() override { return to_->pubsync(); }

  std::streambuf* to_;
  std::string waiting_;
};

}  // namespace

std::string Screen::styled(Style style, std::string_view text) const {
  constexpr std::array<const char*, 6> kCodes = {"1", "2", "31", "32", "33", "34"};
  if (!colour || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[size_t(style)], text);
}

namespace {
constexpr int kIndent = 9;  // columns of the key of a fact
}

std::string Screen::fact(std::string_view key, std::string_view text) const {
  return command(key, indented(wrapped(text, width - kIndent), kIndent));
}

std::string Screen::command(std::string_view key, std::string_view text) const {
  return styled(Style::faint, fmt::format("{:<{}}", key, kIndent)) + std::string(text) + "\n";
}

std::string Screen::drawing(std::string_view text, const std::vector<std::pair<std::string_view, Style>>& marks) const {
  const size_t title = std::min(text.find("\n\n"), text.size());
  std::string out = wrapped(text.substr(0, title), width);
  for (size_t at = title; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const auto found =
        std::find_if(marks.begin(), marks.end(), [&](const auto& mark) { return rest.starts_with(mark.first); });
    if (found == marks.end()) {
      out += text[at++];
      continue;
    }
    size_t run = 0;  // of the same character
    while (rest.substr(run).starts_with(found->first)) run += found->first.size();
    out += styled(found->second, rest.substr(0, run));
    at += run;
  }
  return out;
}

Screen output_screen() { return screen_of(STDOUT_FILENO); }
Screen error_screen() { return screen_of(STDERR_FILENO); }
bool redraws() { return isatty(STDERR_FILENO) && !dumb(); }

std::string wrapped(std::string_view text, int width) {
  std::string out;
  int64_t column = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word(text.substr(at, end - at));
    const int64_t wide = columns_of(word);
    if (column > 0 && column + 1 + wide > width)
      out += '\n', column = 0;
    else if (at > 0)
      out += ' ', ++column;
    out += word, column += wide;
    at = end + 1;
  }
  return out;
}

std::string indented(std::string lines, int columns) {
  for (size_t at = 0; (at = lines.find('\n', at)) != lines.npos; at += size_t(columns))
    lines.insert(++at, size_t(columns), ' ');
  return lines;
}

std::string in_ascii(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const Sign* found = nullptr;
    if (byte >= 0x80)
      for (const Sign& sign : kSigns)
        if (text.substr(at).starts_with(sign.sign)) found = &sign;
    out += found ? found->ascii : text.substr(at, 1);
    at += found ? found->sign.size() : 1;
  }
  return out;
}

AsciiWhereNeeded::AsciiWhereNeeded() {
  if (utf8()) return;
  static AsciiBuffer out(std::cout.rdbuf()), err(std::cerr.rdbuf());
  out_ = std::cout.rdbuf(&out), err_ = std::cerr.rdbuf(&err);
}

AsciiWhereNeeded::~AsciiWhereNeeded() {
  if (out_) std::cout.rdbuf(out_), std::cerr.rdbuf(err_);
}

}  // namespace caravan::app
