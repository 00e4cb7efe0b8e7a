#include "svg.h"

#include <algorithm>
#include <regex>

namespace caravan::plot {

namespace {

// Long attribute values cut short: std::regex takes a stack frame for every character.
string shortened(const string& xml) {
  string out;
  bool tag = false;
  for (size_t at = 0; at < xml.size(); ++at) {
    if (xml[at] == '<') tag = true;
    if (xml[at] == '>') tag = false;
    const size_t end = tag && xml[at] == '"' ? xml.find('"', at + 1) : string::npos;
    if (end == string::npos || end - at < 60 || std::count(xml.begin() + long(at), xml.begin() + long(end), '<') > 0) {
      out += xml[at];
      continue;
    }
    out += "\"long\"";
    at = end;
  }
  return out;
}

}  // namespace

size_t count(const string& text, const string& phrase) {
  size_t n = 0;
  for (size_t at = text.find(phrase); at != string::npos; at = text.find(phrase, at + phrase.size())) ++n;
  return n;
}

string mistake(const string& whole) {
  const string xml = shortened(whole);
  static const std::regex kOpen(R"(<([A-Za-z]+)((\s+[A-Za-z0-9:-]+="[^"<]*")*)\s*(/?)>)"), kClose(R"(</([A-Za-z]+)>)"),
      kText(R"([^<&]*(&(amp|lt|gt|quot);[^<&]*)*)");
  std::vector<string> open;
  bool rooted = false;
  for (auto at = xml.cbegin(); at != xml.cend();) {
    const auto flags = std::regex_constants::match_continuous;
    std::smatch m;
    if (*at != '<') {
      const auto end = std::find(at, xml.cend(), '<');
      if (!std::regex_match(at, end, kText)) return "bad text " + string(at, end);
      if (open.empty() && !std::regex_match(at, end, std::regex(R"(\s*)"))) return "text outside the root";
      at = end;
    } else if (std::regex_search(at, xml.cend(), m, kClose, flags)) {
      if (open.empty() || open.back() != m[1]) return "unexpected </" + m[1].str() + ">";
      open.pop_back();
      at = m[0].second;
    } else if (std::regex_search(at, xml.cend(), m, kOpen, flags)) {
      if (open.empty() && rooted) return "a second root <" + m[1].str() + ">";
      rooted = true;
      if (m[4].length() == 0) open.push_back(m[1]);
      at = m[0].second;
    } else {
      return "not a tag: " + string(at, xml.cend()).substr(0, 60);
    }
  }
  return !open.empty() ? "<" + open.back() + "> is not closed" : rooted ? "" : "no root";
}

std::vector<double> numbers(const string& whole, const string& element, const string& attribute) {
  const string svg = shortened(whole);
  std::vector<double> out;
  const std::regex pattern("<" + element + R"([^>]*\s)" + attribute + R"lit(="([-0-9.]+)")lit");
  for (std::sregex_iterator i(svg.begin(), svg.end(), pattern), end; i != end; ++i) out.push_back(std::stod((*i)[1]));
  return out;
}

}  // namespace caravan::plot
