// The page and its API over HTTP: routes, limits, JSON. Which model answers is the business of Digits and Playground.
#pragma once

#include <memory>
#include <string>

#include "apps/serve/digits.h"
#include "apps/serve/playground.h"

namespace caravan::serve {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;          // 0: any that is free
  double head_seconds = 5;  // the longest that a request's headers may take to come
  double body_seconds = 5;  // and its body
};

class Server {
 public:
  // Answers from here on, in threads of its own, until it is destroyed. BackendError where the port is taken.
  Server(const ServerOptions& options, Digits& digits, Playground& playground);
  ~Server();

  std::string address() const;  // "http://127.0.0.1:8080"
  bool on_loopback() const;     // else other machines can reach it
  bool listens() const;         // false where it had to listen again and could not, so that nobody reaches it

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace caravan::serve
