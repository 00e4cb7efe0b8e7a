// HTTP/1.1 as far as the page needs it: a request from bytes, an answer as bytes.
//
// Reading is strict. A head is made of lines that end with CRLF; a body has the length that one Content-Length says,
// and chunked bodies are refused. What two programs could understand in two ways would let a request hide in another.
// `Range` is ignored, as the standard allows: the answer is always the whole.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace caravan::serve {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method, path;  // GET, /api/status; without what follows a `?`
  HttpHeaders headers;       // names in lower case
  std::string body;
  size_t body_bytes = 0;   // as Content-Length says
  bool keep_alive = true;  // the client may ask again on this connection

  size_t count(std::string_view name) const;        // of the headers of this name
  std::string header(std::string_view name) const;  // the first one's value; empty where there is none
};

struct HttpAnswer {
  int status = 200;
  std::string type, body;
  HttpHeaders headers{};
};

// Why a request is not answered as it wishes: a status and the sentence that the client is sent.
class Refusal : public std::runtime_error {
 public:
  Refusal(int status, const std::string& sentence) : std::runtime_error(sentence), status_(status) {}
  int status() const { return status_; }

 private:
  int status_;
};
HttpAnswer to_answer(const Refusal& refusal);  // {"error": "the sentence"}

inline constexpr size_t kMostHeadBytes = 16 * 1024;  // browsers send less than one
inline constexpr size_t kMostTargetBytes = 8 * 1024;
inline constexpr size_t kMostHeaders = 100;
inline constexpr size_t kMostBodyBytes = 64 * 1024;  // 784 pixels written in full are a quarter of it

// The length of the head at the front of what has come, with the empty line that ends it; 0 where more must come.
// Throws Refusal (414, 431) as soon as it is too long.
size_t head_length(std::string_view received);
// Throws Refusal: 400 for what is not HTTP, 411 for a chunked body, 413 for one that is too long, 431.
HttpRequest parse_head(std::string_view head);
// The body as it was before it was packed. Throws Refusal where it is damaged, too long or packed in an unknown way.
std::string unpacked_body(const HttpRequest& request);

// With the headers that every answer has. HEAD gets no body, but its length. `keep_alive`: for how many seconds the
// connection waits for another request, which the client is told, so that it does not send one into a connection that
// is being closed; 0: it is closed.
std::string to_bytes(const HttpAnswer& answer, bool with_body, int keep_alive);

}  // namespace caravan::serve
