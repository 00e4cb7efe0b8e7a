// What the tests of the page's server share: a server with a small model, clients that are slow, and requests by hand.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "apps/serve/server.h"
#include "socket_client.h"

namespace caravan::serve {

using Json = nlohmann::json;
using std::string;

double milliseconds_since(std::chrono::steady_clock::time_point start);
string repeated(const string& text, size_t n);
int port_of(const Server& server);
std::vector<float> stroke(int column);  // the pixels of a digit: one line from top to bottom
DigitModel random_model();              // a convolution, a hidden layer and ten probabilities, with random weights

// What a page elsewhere can have a browser send: a form with any bytes in it.
string form(const string& path, const string& body);

// Makes accepting fail: the listening socket is one of this process. How many there were. With a rival the port is
// another's at once.
int shut_down_listening(int port, bool with_rival = false);

class Serve : public testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = new DigitModel(random_model()); }
  static void TearDownTestSuite() { delete model_; }

  void with_model() {
    digits_.use(*model_);
    digits_.show({{3, stroke(10)}, {5, stroke(15)}});
  }
  int port() const { return port_of(server_); }
  Reply raw(const string& text) const {
    Connection connection(port());
    connection.send(text);
    return connection.receive();
  }
  Reply get(const string& path) const { return raw(get_request(path)); }
  Reply post(const string& path, const string& body) const { return raw(post_request(path, body)); }
  Json predicted(int column) const {
    return Json::parse(post("/api/predict", Json{{"pixels", stroke(column)}}.dump()).body);
  }
  Json played(Json request) const {
    if (!request.contains("session")) request["session"] = "a-session";
    const Reply reply = post("/api/playground", request.dump());
    EXPECT_EQ(reply.status, 200) << reply.body;
    return Json::parse(reply.body);
  }

  static inline DigitModel* model_ = nullptr;
  Digits digits_;
  Playground playground_{{.threads = 1}};
  Server server_{{.port = 0}, digits_, playground_};
};

// Begins requests that are never complete, and goes on with all of them a byte at a time until it is destroyed.
class SlowClients {
 public:
  SlowClients(int port, int count, const string& beginning) {
    for (int i = 0; i < count; ++i) {
      clients_.push_back(std::make_unique<Connection>(port));
      clients_.back()->send(beginning);
    }
    dripping_ = std::thread([this] {
      for (; !done_; std::this_thread::sleep_for(std::chrono::milliseconds(50)))
        for (const auto& client : clients_) client->send("a");
    });
  }
  ~SlowClients() {
    done_ = true;
    dripping_.join();
  }
  const std::vector<std::unique_ptr<Connection>>& all() const { return clients_; }

 private:
  std::vector<std::unique_ptr<Connection>> clients_;
  std::atomic<bool> done_ = false;
  std::thread dripping_;
};
inline const string kHalfHead = "GET / HTTP/1.1\r\nHost: localhost\r\nX: ";

}  // namespace caravan::serve
