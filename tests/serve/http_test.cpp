// The HTTP server by itself: connections, threads, turns, and listening again.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "apps/serve/http_server.h"
#include "caravan/base/error.h"
#include "serve/serve.h"

namespace caravan::serve {
namespace {

TEST(Http, ConnectionsBeyondTheMostDisplaceThoseThatWaitLongest) {
  const HttpServer server(
      {.idle_seconds = 60, .head_seconds = 60, .most_connections = 8},
      [](const HttpRequest&, const std::atomic<bool>&) {
        return HttpAnswer{200, "text/plain", "here"};
      },
      [](const HttpRequest&) { return false; });
  std::vector<std::unique_ptr<Connection>> silent;
  for (int i = 0; i < 30; ++i) {
    silent.push_back(std::make_unique<Connection>(server.port()));
    silent.back()->send(i % 2 ? "" : kHalfHead);
    Connection normal(server.port());
    normal.send(get_request("/"));
    EXPECT_EQ(normal.receive().body, "here") << i;
  }
  EXPECT_EQ(silent.front()->receive().status, 0) << "it had to go";
}

TEST(Http, TellsThatAClientLeftBeforeItsAnswer) {
  std::atomic<int> heard = 0;
  std::atomic<bool> begun = false;
  const HttpServer server(
      {},
      [&](const HttpRequest& request, const std::atomic<bool>& left) {
        begun = true;
        for (int i = 0; i < 500 && request.path == "/wait" && !left; ++i)
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        heard += left;
        return HttpAnswer{200, "text/plain", "here"};
      },
      [](const HttpRequest& request) { return request.path == "/wait"; });
  {
    Connection leaves(server.port());
    leaves.send(get_request("/wait"));
    while (!begun) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (int i = 0; i < 200 && heard == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(heard, 1);
  Connection stays(server.port());
  stays.send(get_request("/"));
  EXPECT_EQ(stays.receive().status, 200);
  EXPECT_EQ(heard, 1);
}

// What takes long has threads of its own: the rest is answered meanwhile, however much of it there is.
TEST(Http, WhatIsQuickNeverWaitsForWhatTakesLong) {
  std::atomic<bool> done = false;
  {
    const HttpServer server(
        {.threads = 1, .long_threads = 2},
        [&](const HttpRequest& request, const std::atomic<bool>& left) {
          while (request.path == "/long" && !done && !left) std::this_thread::sleep_for(std::chrono::milliseconds(5));
          return HttpAnswer{200, "text/plain", request.path};
        },
        [](const HttpRequest& request) { return request.path == "/long"; });
    std::vector<std::unique_ptr<Connection>> waiting;
    for (int i = 0; i < 20; ++i) {
      waiting.push_back(std::make_unique<Connection>(server.port()));
      waiting.back()->send(get_request("/long"));
    }
    Connection quick(server.port());
    quick.send(get_request("/quick"));
    EXPECT_EQ(quick.receive().body, "/quick");
    done = true;
    for (const auto& client : waiting) EXPECT_EQ(client->receive().body, "/long");
    done = false;
    waiting[0]->send(get_request("/long"));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }  // which does not wait for what takes long: its client has left
  EXPECT_FALSE(done);
}

TEST(Playground, CompilesOnlySoManyAtOnceAndNothingForThoseWhoLeft) {
  Turns turns(1, 1);
  const std::atomic<bool> stays = false;
  std::atomic<bool> leaves = false;
  std::atomic<int> had = 0;
  auto first = std::make_unique<Turns::Turn>(turns, stays);
  std::thread second([&] {
    const Turns::Turn turn(turns, stays);
    ++had;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(had, 0);
  EXPECT_THROW(Turns::Turn(turns, stays), NotReady) << "one waits already";
  first.reset();
  second.join();
  EXPECT_EQ(had, 1);

  first = std::make_unique<Turns::Turn>(turns, stays);
  std::thread third([&] { EXPECT_THROW(Turns::Turn(turns, leaves), NotReady); });
  leaves = true;
  third.join();  // though the first still has its turn
  first.reset();
  EXPECT_THROW(Turns::Turn(turns, leaves), NotReady) << "left before it began";
  Playground playground({.threads = 1});
  EXPECT_THROW(playground.advance("a-session", {}, 1, false, leaves), NotReady);
  EXPECT_EQ(playground.advance("a-session", {}, 1, false, stays).steps, 1);
}

TEST_F(Serve, SaysThatItCannotListenAgain) {
  EXPECT_TRUE(server_.listens());
  ASSERT_EQ(shut_down_listening(port(), true), 1);
  for (int tries = 0; tries < 500 && server_.listens(); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(server_.listens());
}

TEST_F(Serve, ListensAgainWhereAcceptingFails) {
  ASSERT_EQ(shut_down_listening(port()), 1);
  for (int tries = 0; tries < 200; ++tries) {
    try {
      EXPECT_EQ(get("/api/status").status, 200);
      return;
    } catch (const std::runtime_error&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  FAIL() << "nobody listens any more";
}

TEST_F(Serve, APortThatIsTakenIsTheMachinesFault) {
  try {
    const Server second({.port = port()}, digits_, playground_);
    FAIL() << "two servers on one port";
  } catch (const BackendError& error) {
    EXPECT_EQ(string(error.what()),
              "cannot listen on 127.0.0.1:" + std::to_string(port()) +
                  ": the port is taken or the address is not of this machine; --port 0 takes a port that is free.");
  }
  EXPECT_THROW(Server({.host = "", .port = 0}, digits_, playground_), ConfigError);
  EXPECT_THROW(Server({.host = "no.such.host.invalid", .port = 0}, digits_, playground_), BackendError);
}

}  // namespace
}  // namespace caravan::serve
