// What a client may send on one connection: requests, one behind the other, each refused or read within its limits.
#include "apps/serve/http.h"

#include "fuzz.h"

using namespace caravan::serve;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) try {
  std::string_view rest = text_of(data, size);
  while (const size_t length = head_length(rest)) {
    must(length <= kMostHeadBytes && length <= rest.size());
    HttpRequest request = parse_head(rest.substr(0, length));
    rest.remove_prefix(length);
    must(request.headers.size() <= kMostHeaders && request.body_bytes <= kMostBodyBytes && !request.path.empty());
    for (const auto& [name, value] : request.headers)
      must(value.find_first_of("\r\n") == value.npos && request.count(name) > 0);
    if (rest.size() < request.body_bytes) return 0;
    request.body = rest.substr(0, request.body_bytes);
    rest.remove_prefix(request.body_bytes);
    must(unpacked_body(request).size() <= kMostBodyBytes);
  }
  return 0;
} catch (const Refusal& refusal) {
  const std::string answer = to_bytes(to_answer(refusal), true, 0);
  must(answer.starts_with("HTTP/1.1 4"));
  return 0;
}

std::vector<std::string> seeds() {
  return {
      "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n",
      "POST /api/predict?x=1 HTTP/1.1\r\nHost: [::1]:80\r\nContent-Type: application/json\r\nContent-Length: "
      "2\r\n\r\n{}GET / HTTP/1.0\r\n\r\n",
      "POST / HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 22\r\n\r\n" +
          std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03\xab\xae\x05\0\x43\xbf\xa6\xa3\x02\0\0\0", 22),
      "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
      "GET / HTTP/1.1\r\nConnection: close\r\nExpect: 100-continue\r\nRange: bytes=0-,0-\r\n\r\n",
  };
}
