// Many clients at once, slow ones, silent ones, and ones that never end.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <thread>

#include "sanitized.h"
#include "serve/serve.h"

namespace caravan::serve {
namespace {

TEST_F(Serve, EightClientsGetTheAnswersThatOneWouldGet) {
  with_model();
  std::vector<Json> alone;
  for (int i = 0; i < 8; ++i) alone.push_back(predicted(6 + i)["probabilities"]);
  const Json trained = played({{"session", "alone-at-work"}, {"steps", 4}})["field"];
  std::vector<std::thread> clients;
  std::vector<int> wrong(8);
  for (int i = 0; i < 8; ++i)
    clients.emplace_back([&, i] {
      Connection connection(port());
      auto asked = [&](const string& request) {
        connection.send(request);
        return Json::parse(connection.receive().body);
      };
      for (int round = 0; round < 20; ++round)
        wrong[size_t(i)] +=
            asked(post_request("/api/predict", Json{{"pixels", stroke(6 + i)}}.dump()))["probabilities"] !=
            alone[size_t(i)];
      Json view;
      for (int step = 0; step < 4; ++step)
        view = asked(
            post_request("/api/playground", Json{{"session", "client-" + std::to_string(i)}, {"steps", 1}}.dump()));
      wrong[size_t(i)] += view["field"] != trained;
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, std::vector<int>(8));
}

TEST_F(Serve, ClientsThatStopInTheMiddleHinderNobody) {
  std::vector<std::unique_ptr<Connection>> half;
  for (int i = 0; i < 16; ++i) {
    half.push_back(std::make_unique<Connection>(port()));
    half.back()->send(i % 2 ? "GET / HT"
                            : "POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                              "application/json\r\nContent-Length: 100\r\n\r\n{");
  }
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(get("/api/status").status, 200);
  EXPECT_LT(milliseconds_since(start), 2000);
}

// A byte now and then, of bodies that would take minutes, from more clients than the server has threads.
TEST_F(Serve, SlowClientsAreSentAway) {
  const Server server({.port = 0, .body_seconds = 1}, digits_, playground_);
  const int port = port_of(server);
  std::vector<std::unique_ptr<Connection>> slow;
  for (int i = 0; i < 64; ++i) {
    slow.push_back(std::make_unique<Connection>(port));
    slow.back()->send(
        "POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
        "1000\r\n\r\n");
  }
  std::atomic<bool> done = false;
  std::thread dripping([&] {
    for (; !done; std::this_thread::sleep_for(std::chrono::milliseconds(50)))
      for (const auto& client : slow) client->send(" ");
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const auto start = std::chrono::steady_clock::now();
  Connection normal(port);
  normal.send(get_request("/api/status"));
  EXPECT_EQ(normal.receive().status, 200);
  if (!kSanitized) {
    EXPECT_LT(milliseconds_since(start), 4000);
  }
  for (const auto& client : slow) {
    const Reply reply = client->receive();
    EXPECT_EQ(reply.status, 408);
    EXPECT_EQ(reply.body, R"({"error":"the body came too slowly: it must be here within 1 s."})");
    EXPECT_EQ(client->receive().status, 0) << "the connection is closed";
  }
  done = true;
  dripping.join();
}

TEST_F(Serve, SlowHeadersHinderNobodyAndAreSentAway) {
  const Server server({.port = 0, .head_seconds = 2}, digits_, playground_);
  const int port = port_of(server);
  const SlowClients slow(port, 75, kHalfHead);
  for (int i = 0; i < 20; ++i) {
    const auto start = std::chrono::steady_clock::now();
    Connection normal(port);
    normal.send(get_request("/api/status"));
    EXPECT_EQ(normal.receive().status, 200);
    if (!kSanitized) {
      EXPECT_LT(milliseconds_since(start), 1000);
    }
  }
  for (const auto& client : slow.all()) {
    const Reply reply = client->receive();
    EXPECT_EQ(reply.status, 408);
    EXPECT_EQ(reply.body, R"({"error":"the headers came too slowly: they must be here within 2 s."})");
    EXPECT_EQ(client->receive().status, 0) << "the connection is closed";
  }
}

TEST_F(Serve, AStopClosesEveryConnectionAtOnce) {
  auto server = std::make_unique<Server>(ServerOptions{.port = 0}, digits_, playground_);
  const SlowClients slow(port_of(*server), 20, kHalfHead);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const auto start = std::chrono::steady_clock::now();
  server.reset();
  EXPECT_LT(milliseconds_since(start), 1000);
  for (const auto& client : slow.all()) EXPECT_EQ(client->receive().status, 0);
}

// Kilobytes: the most memory that a process has had.
int64_t largest_memory(const string& process = "self") {
  std::ifstream status("/proc/" + process + "/status");
  for (string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6));
  return 0;
}

TEST_F(Serve, EndlessHeadersEnd) {
  const int64_t before = largest_memory();
  for (const string& piece : {repeated("X-Y: a\r\n", 1000), string(8000, 'x')})
    for (int client = 0; client < 10; ++client) {
      Connection connection(port());
      connection.send("GET / HTTP/1.1\r\nHost: localhost\r\nX: ");
      for (int i = 0; i < 1000; ++i) connection.send(piece);  // 8 MB
      EXPECT_TRUE(connection.receive().status == 431 || !connection.is_open());
    }
  if (!kSanitized) {
    EXPECT_LT(largest_memory() - before, 10'000) << "kB";
  }
}

// A small question must not have a large answer.
TEST_F(Serve, RangesAreIgnored) {
  with_model();
  const string whole = get("/api/examples").body;
  for (const string& range :
       {string("bytes=0-9"), "bytes=0-" + repeated(",0-", 2599), string("bytes=9-0"), string("lines=1")}) {
    const Reply reply = raw("GET /api/examples HTTP/1.1\r\nHost: localhost\r\nRange: " + range + "\r\n\r\n");
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, whole);
  }
}

TEST_F(Serve, SpeaksAsMuchHttpAsClientsNeed) {
  Connection several(port());  // sent at once, answered in order
  several.send("\r\n" + get_request("/api/status") + get_request("/nothing") +
               "HEAD /style.css HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(several.receive().status, 200);
  EXPECT_EQ(several.receive().status, 404);
  const Reply head = several.receive_head();
  EXPECT_NE(head.head.find("Content-Length: " + std::to_string(get("/style.css").body.size()) + "\r\n"), string::npos);
  several.send(get_request("/api/status?again=1"));
  EXPECT_EQ(several.receive().status, 200) << "HEAD has no body, so the next answer begins where it should";

  for (const string last : {"GET /api/status HTTP/1.0\r\nHost: localhost\r\n\r\n",
                            "GET /api/status HTTP/1.1\r\nHost: localhost\r\nConnection: Close\r\n\r\n"}) {
    Connection once(port());
    once.send(last);
    const Reply reply = once.receive();
    EXPECT_EQ(reply.status, 200);
    EXPECT_NE(reply.head.find("Connection: close\r\n"), string::npos);
    EXPECT_EQ(once.receive().status, 0);
  }

  with_model();
  Connection waits(port());
  const string body = Json{{"pixels", stroke(9)}}.dump();
  waits.send(
      "POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: "
      "100-continue\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n");
  EXPECT_EQ(waits.receive_head().status, 100);
  waits.send(body);
  EXPECT_EQ(waits.receive().status, 200);
}

}  // namespace
}  // namespace caravan::serve
