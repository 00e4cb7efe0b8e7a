#include "apps/serve/http.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "apps/json_line.h"
#include "caravan/base/error.h"
#include "caravan/base/trimmed.h"
#include "caravan/data/gzip.h"

namespace caravan::serve {

namespace {

constexpr std::string_view kLineEnd = "\r\n", kHeadEnd = "\r\n\r\n";
constexpr std::string_view kMethods[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
constexpr const char* kNotUnderstood = "the request is not one that this server understands.";

const HttpHeaders& headers_of_every_answer() {
  static const HttpHeaders out = {{"Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'"},
                                  {"X-Content-Type-Options", "nosniff"},
                                  {"Referrer-Policy", "no-referrer"},
                                  {"Cache-Control", "no-store"}};
  return out;
}

const char* phrase(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 411: return "Length Required";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 421: return "Misdirected Request";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    default: return "Internal Server Error";
  }
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; }
std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = lower(c);
  return out;
}

// What RFC 9110 calls a token: the name of a header.
bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    const char l = lower(c);
    return (l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}
bool is_control(char c) { return (c >= 0 && c < ' ' && c != '\t') || c == 0x7f; }

[[noreturn]] void not_understood() { throw Refusal(400, kNotUnderstood); }
[[noreturn]] void body_too_long() {
  throw Refusal(413, fmt::format("the body is longer than {} bytes.", kMostBodyBytes));
}

void parse_request_line(std::string_view line, HttpRequest& out) {
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == line.npos || first == last) not_understood();
  const std::string_view method = line.substr(0, first), target = line.substr(first + 1, last - first - 1),
                         version = line.substr(last + 1);
  if (std::find(std::begin(kMethods), std::end(kMethods), method) == std::end(kMethods)) not_understood();
  if (!target.starts_with('/') || target.find(' ') != target.npos ||
      std::any_of(target.begin(), target.end(), is_control))
    not_understood();
  if (version != "HTTP/1.1" && version != "HTTP/1.0") not_understood();
  out.method = method;
  out.path = target.substr(0, target.find('?'));
  out.keep_alive = version == "HTTP/1.1";
}

void parse_header(std::string_view line, HttpRequest& out) {
  const size_t colon = line.find(':');
  if (colon == line.npos || !is_name(line.substr(0, colon))) not_understood();
  const std::string_view value = trimmed(line.substr(colon + 1), " \t");
  if (std::any_of(value.begin(), value.end(), is_control)) not_understood();
  if (out.headers.size() == kMostHeaders)
    throw Refusal(431, fmt::format("the request has more than {} headers.", kMostHeaders));
  out.headers.emplace_back(lower(line.substr(0, colon)), value);
}

size_t body_length(const HttpRequest& request) {
  if (request.count("transfer-encoding") > 0)
    throw Refusal(411, "the request must say how long its body is, with the header Content-Length.");
  if (request.count("content-length") == 0) return 0;
  const std::string text = request.header("content-length");
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  if (request.count("content-length") > 1 || !digits) not_understood();
  size_t out = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || out > kMostBodyBytes) body_too_long();
  return out;
}

}  // namespace

size_t HttpRequest::count(std::string_view name) const {
  return size_t(std::count_if(headers.begin(), headers.end(), [&](const auto& h) { return h.first == name; }));
}
std::string HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return "";
}

HttpAnswer to_answer(const Refusal& refusal) {
  return {refusal.status(), "application/json", app::json_text({{"error", refusal.what()}})};
}

size_t head_length(std::string_view received) {
  const size_t line = std::min(received.find(kLineEnd), received.size());
  if (line > kMostTargetBytes)
    throw Refusal(414, fmt::format("the address is longer than {} bytes.", kMostTargetBytes));
  const size_t end = received.find(kHeadEnd);
  const size_t length = end == received.npos ? 0 : end + kHeadEnd.size();
  if (std::max(length, end == received.npos ? received.size() : 0) > kMostHeadBytes)
    throw Refusal(431, fmt::format("the headers are longer than {} bytes.", kMostHeadBytes));
  return length;
}

HttpRequest parse_head(std::string_view head) {
  HttpRequest out;
  bool first = true;
  while (!head.starts_with(kLineEnd)) {
    const size_t end = head.find(kLineEnd);
    if (end == head.npos) not_understood();
    first ? parse_request_line(head.substr(0, end), out) : parse_header(head.substr(0, end), out);
    first = false;
    head.remove_prefix(end + kLineEnd.size());
  }
  if (first) not_understood();
  const std::string connection = lower(out.header("connection"));
  auto says = [&](const char* word) { return connection.find(word) != connection.npos; };  // of a list of words
  out.keep_alive = !says("close") && (out.keep_alive || says("keep-alive"));
  out.body_bytes = body_length(out);
  return out;
}

std::string unpacked_body(const HttpRequest& request) {
  const std::string packing = lower(request.header("content-encoding"));
  if (packing.empty() || packing == "identity") return request.body;
  if (packing != "gzip") throw Refusal(415, "the body may be packed with gzip, and with nothing else.");
  try {
    std::string out = data::gunzip_start(request.body, "the body", kMostBodyBytes + 1);
    if (out.size() > kMostBodyBytes) body_too_long();
    return out;
  } catch (const ConfigError&) {
    throw Refusal(400, "the body is not gzip, as its header Content-Encoding says.");
  }
}

std::string to_bytes(const HttpAnswer& answer, bool with_body, int keep_alive) {
  std::string out =
      fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: {}\r\n", answer.status,
                  phrase(answer.status), answer.type, answer.body.size(), keep_alive > 0 ? "keep-alive" : "close");
  if (keep_alive > 0) out += fmt::format("Keep-Alive: timeout={}\r\n", keep_alive);
  for (const HttpHeaders* headers : {&headers_of_every_answer(), &answer.headers})
    for (const auto& [name, value] : *headers) out += fmt::format("{}: {}\r\n", name, value);
  out += kLineEnd;
  if (with_body) out += answer.body;
  return out;
}

}  // namespace caravan::serve
