// HTTP over sockets. One thread moves all bytes: it gathers each request whole, and sends each answer, with limits of
// time and memory for every connection. Other threads compute the answers, so a client that is slow to send or to
// receive occupies no thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "apps/serve/http.h"

namespace caravan::serve {

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;                   // 0: any that is free
  int idle_seconds = 10;          // without a request; then the connection is closed
  double head_seconds = 5;        // from the first byte of a request to the end of its headers
  double body_seconds = 5;        // from there to the end of its body
  double send_seconds = 30;       // for a client to take its answer
  size_t most_connections = 512;  // one more displaces the one that has waited longest, unless it is being answered
  size_t threads = 4;             // that answer what is quick
  size_t long_threads = 16;       // that answer what takes long
};

class HttpServer {
 public:
  // `left` becomes true when the client closes its side of the connection before the answer, or the server stops:
  // nobody waits for the answer any more.
  using Answer = std::function<HttpAnswer(const HttpRequest& request, const std::atomic<bool>& left)>;
  // Which requests have threads of their own, so that the others never wait for them.
  using TakesLong = std::function<bool(const HttpRequest& request)>;

  // Answers from here on until it is destroyed, which closes all connections and waits for the answers that are being
  // computed. BackendError where it cannot listen.
  HttpServer(const HttpServerOptions& options, Answer answer, TakesLong takes_long);
  ~HttpServer();

  int port() const;
  bool listens() const;  // false where it had to listen again and could not, so that nobody reaches it

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace caravan::serve
