#include "apps/serve/http_server.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "caravan/base/error.h"

namespace caravan::serve {

namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

constexpr size_t kPiece = 16 * 1024;  // bytes that are received at a time
constexpr int kWaiting = 128;         // connections that the system keeps until they are accepted
constexpr int kAcceptedAtOnce = 64;   // between two looks at the others
// How long a connection is read, and what comes thrown away, after the last answer. Closing it with bytes unread would
// make the system reset it, and the client might lose the answer.
constexpr double kDrainSeconds = 1;

Time after(Time start, double seconds) {
  return start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

class Socket {
 public:
  explicit Socket(int number = -1) : number_(number) {}
  Socket(Socket&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Socket() {
    if (number_ >= 0) close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

using Left = std::shared_ptr<std::atomic<bool>>;

// Threads that take pieces of work in the order in which they came. What has not begun at the end is dropped.
class Workers {
 public:
  explicit Workers(size_t threads) {
    for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
  }
  ~Workers() {
    {
      const std::scoped_lock lock(mutex_);
      ended_ = true;
      queue_.clear();
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  void add(std::function<void()> work) {
    {
      const std::scoped_lock lock(mutex_);
      queue_.push_back(std::move(work));
    }
    wake_.notify_one();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return ended_ || !queue_.empty(); });
      if (ended_) return;
      const std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

struct Connection {
  enum class State : uint8_t { idle, head, body, answering, sending, draining };
  Socket socket;
  std::string peer;  // its address
  State state = State::idle;
  Time since{}, deadline{};  // of the state; while it is answered there is no deadline
  std::string received;      // and not understood yet
  HttpRequest request;
  std::string answer;
  size_t sent = 0;
  bool with_body = true;  // the answer: not for HEAD
  bool closes = false;    // after this answer
  Left left;
};

// A socket that listens; nothing where the system refuses.
std::optional<Socket> listening(const std::string& host, int port) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list) != 0) return std::nullopt;
  std::optional<Socket> out;
  for (const addrinfo* a = list; a && !out; a = a->ai_next) {
    Socket one(socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol));
    if (one.number() < 0) continue;
    const int yes = 1;  // a port that was closed a moment ago; SO_REUSEPORT would let two servers share one
    setsockopt(one.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(one.number(), a->ai_addr, a->ai_addrlen) == 0 && listen(one.number(), kWaiting) == 0) out = std::move(one);
  }
  freeaddrinfo(list);
  return out;
}

int port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// The address without the port, as bytes.
std::string peer_of(const sockaddr_storage& address) {
  auto bytes = [](const auto& of) { return std::string(reinterpret_cast<const char*>(&of), sizeof of); };
  return address.ss_family == AF_INET6 ? bytes(reinterpret_cast<const sockaddr_in6&>(address).sin6_addr)
                                       : bytes(reinterpret_cast<const sockaddr_in&>(address).sin_addr);
}

}  // namespace

struct HttpServer::Impl {
  using State = Connection::State;
  using Id = uint64_t;

  const HttpServerOptions options;
  const Answer compute;
  const TakesLong takes_long;
  Socket listener, wake;
  int port = 0;
  std::atomic<bool> stopping = false, ended = false;

  // Of the thread that moves the bytes.
  std::map<Id, Connection> connections;
  Id next = 0;
  Time accept_again{};  // where the system had no room for another connection

  std::mutex mutex;
  std::vector<std::pair<Id, HttpAnswer>> computed;  // of the mutex

  std::optional<Workers> quick, slow;
  std::thread mover;

  Impl(const HttpServerOptions& given, Answer answer, TakesLong which)
      : options(given),
        compute(std::move(answer)),
        takes_long(std::move(which)),
        wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    std::optional<Socket> socket = listening(options.host, options.port);
    if (!socket || wake.number() < 0)
      throw BackendError(options.port == 0
                             ? fmt::format("cannot listen on {}: this machine has no such address.", options.host)
                             : fmt::format("cannot listen on {}:{}: the port is taken or the address is not of this "
                                           "machine; --port 0 takes a port that is free.",
                                           options.host, options.port));
    listener = std::move(*socket);
    port = port_of(listener.number());
    quick.emplace(options.threads);
    slow.emplace(options.long_threads);
    mover = std::thread([this] {
      run();
      ended = true;
    });
  }

  ~Impl() {
    stopping = true;
    notify();
    mover.join();  // which closes the connections and tells the workers that nobody waits
    quick.reset();
    slow.reset();
  }

  void notify() const {
    const uint64_t one = 1;
    while (write(wake.number(), &one, sizeof one) < 0 && errno == EINTR) {
    }
  }

  void run() {
    std::vector<pollfd> polled;
    std::vector<Id> ids;  // of polled, behind the first two
    while (!stopping) {
      polled = {{wake.number(), POLLIN, 0}, {accepts() ? listener.number() : -1, POLLIN, 0}};
      ids.clear();
      for (const auto& [id, connection] : connections) {
        polled.push_back(wish_of(connection));
        ids.push_back(id);
      }
      if (poll(polled.data(), polled.size(), milliseconds_to_wait()) < 0 && errno != EINTR) break;
      for (uint64_t count; polled[0].revents && read(wake.number(), &count, sizeof count) > 0;) {
      }
      take_computed();
      for (size_t i = 0; i < ids.size(); ++i)
        if (polled[i + 2].revents != 0) attend(ids[i], polled[i + 2].revents);
      end_what_is_late();
      if (polled[1].revents != 0 && !accept_some()) break;
    }
    for (auto& [id, connection] : connections)
      if (connection.left) *connection.left = true;
    connections.clear();
    listener = Socket();
  }

  static pollfd wish_of(const Connection& connection) {
    const int socket = connection.socket.number();
    switch (connection.state) {
      case State::answering:  // asks only whether the client is there; once it has left there is nothing to hear
        return {*connection.left ? -1 : socket, POLLRDHUP, 0};
      case State::sending: return {socket, POLLOUT, 0};
      default: return {socket, POLLIN, 0};
    }
  }

  int milliseconds_to_wait() const {
    const Time now = Clock::now();
    Time first = after(now, 3600);
    for (const auto& [id, connection] : connections)
      if (connection.state != State::answering) first = std::min(first, connection.deadline);
    if (accept_again > now) first = std::min(first, accept_again);
    return int(std::max<int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(first - now).count()));
  }

  void enter(Connection& connection, State state, double seconds = 0) const {
    connection.state = state;
    connection.since = Clock::now();
    connection.deadline = after(connection.since, seconds);
  }

  // --- connections that come ---

  bool accepts() const {
    return Clock::now() >= accept_again && (connections.size() < options.most_connections || displaceable());
  }

  // Of the client with the most connections, the one that has been in its state longest. Those that are being answered
  // stay.
  std::optional<Id> displaceable() const {
    std::map<std::string_view, size_t> of_peer;
    for (const auto& [id, connection] : connections) ++of_peer[connection.peer];
    std::optional<Id> out;
    auto before = [&](const Connection& a, const Connection& b) {
      const size_t x = of_peer[a.peer], y = of_peer[b.peer];
      return x != y ? x > y : a.since < b.since;
    };
    for (const auto& [id, connection] : connections)
      if (connection.state != State::answering && (!out || before(connection, connections.at(*out)))) out = id;
    return out;
  }

  // False: the socket no longer listens, and neither does another.
  bool accept_some() {
    for (int i = 0; i < kAcceptedAtOnce; ++i) {
      if (connections.size() >= options.most_connections) {
        const std::optional<Id> goes = displaceable();
        if (!goes) return true;
        connections.erase(*goes);
      }
      sockaddr_storage address{};
      socklen_t size = sizeof address;
      Socket socket(
          accept4(listener.number(), reinterpret_cast<sockaddr*>(&address), &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket.number() < 0) return accept_failed();
      const int yes = 1;
      setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      Connection& connection = connections[next++];
      connection.socket = std::move(socket);
      connection.peer = peer_of(address);
      enter(connection, State::idle, options.idle_seconds);
    }
    return true;
  }

  bool accept_failed() {
    switch (errno) {
      case EAGAIN:
      case EINTR:
      case ECONNABORTED:  // the client has gone again
      case EPROTO:
      case EPERM: return true;
      case EMFILE:  // no room for another file: make some, and try again in a moment
      case ENFILE:
      case ENOBUFS:
      case ENOMEM:
        if (const std::optional<Id> goes = displaceable()) connections.erase(*goes);
        accept_again = after(Clock::now(), 0.1);
        return true;
      default: break;
    }
    // Nothing that a client does may end the page: listen anew.
    listener = Socket();
    std::optional<Socket> again = listening(options.host, port);
    if (!again) return false;
    listener = std::move(*again);
    return true;
  }

  // --- what a connection does next ---

  void attend(Id id, short events) {
    const auto at = connections.find(id);
    if (at == connections.end()) return;
    Connection& connection = at->second;
    bool stays = true;
    switch (connection.state) {
      case State::answering:
        if (events & (POLLRDHUP | POLLHUP | POLLERR)) *connection.left = true;
        break;
      case State::sending: stays = send_more(connection) && go_on(id, connection); break;
      case State::draining: stays = throw_away(connection); break;
      default: stays = receive(connection) && go_on(id, connection); break;
    }
    if (!stays) connections.erase(at);
  }

  // False where the client has closed it, or it is broken.
  static bool receive(Connection& connection) {
    char piece[kPiece];
    const ssize_t n = recv(connection.socket.number(), piece, sizeof piece, 0);
    if (n > 0) connection.received.append(piece, size_t(n));
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
  }
  static bool throw_away(Connection& connection) {
    char piece[kPiece];
    const ssize_t n = recv(connection.socket.number(), piece, sizeof piece, 0);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
  }
  static bool send_more(Connection& connection) {
    const std::string_view rest = std::string_view(connection.answer).substr(connection.sent);
    const ssize_t n = send(connection.socket.number(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (n > 0) connection.sent += size_t(n);
    return n >= 0 || errno == EAGAIN || errno == EINTR;
  }

  // As far as the bytes that are there lead. False where the connection ends.
  bool go_on(Id id, Connection& connection) {
    try {
      if (connection.state == State::sending && !after_sending(connection)) return true;
      if (connection.state == State::idle) begin(connection);
      if (connection.state == State::head) read_head(connection);
      if (connection.state == State::body) read_body(id, connection);
    } catch (const Refusal& refusal) {
      refuse(connection, refusal);
    }
    return true;
  }

  // Is the answer sent, so that another request may come?
  bool after_sending(Connection& connection) const {
    if (connection.sent < connection.answer.size()) return false;
    connection.answer.clear();
    connection.answer.shrink_to_fit();
    if (connection.closes) {
      shutdown(connection.socket.number(), SHUT_WR);
      enter(connection, State::draining, kDrainSeconds);
      return false;
    }
    enter(connection, State::idle, options.idle_seconds);
    return true;
  }

  void begin(Connection& connection) const {
    std::string& received = connection.received;
    while (received.starts_with("\r\n")) received.erase(0, 2);  // some clients end a body with an empty line
    if (!received.empty() && received != "\r") enter(connection, State::head, options.head_seconds);
  }

  void read_head(Connection& connection) const {
    const size_t length = head_length(connection.received);
    if (length == 0) return;
    connection.request = parse_head(std::string_view(connection.received).substr(0, length));
    connection.received.erase(0, length);
    enter(connection, State::body, options.body_seconds);
    if (connection.request.header("expect") == "100-continue" &&
        connection.received.size() < connection.request.body_bytes) {
      const std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
      // It fits the socket's buffer, which is empty here; a client that does not hear it sends its body after a second.
      send(connection.socket.number(), go_on.data(), go_on.size(), MSG_NOSIGNAL);
    }
  }

  void read_body(Id id, Connection& connection) {
    HttpRequest& request = connection.request;
    if (connection.received.size() < request.body_bytes) return;
    request.body = connection.received.substr(0, request.body_bytes);
    connection.received.erase(0, request.body_bytes);
    connection.closes = !request.keep_alive;
    connection.left = std::make_shared<std::atomic<bool>>(false);
    enter(connection, State::answering);
    const auto asked = std::make_shared<const HttpRequest>(std::move(request));
    connection.with_body = asked->method != "HEAD";
    (takes_long(*asked) ? slow : quick)->add([this, id, asked, left = connection.left] {
      HttpAnswer out;
      try {
        out = compute(*asked, *left);
      } catch (const Refusal& refusal) {
        out = to_answer(refusal);
      } catch (const std::exception& error) {
        out = to_answer(Refusal(500, error.what()));
      }
      {
        const std::scoped_lock lock(mutex);
        computed.emplace_back(id, std::move(out));
      }
      notify();
    });
  }

  void take_computed() {
    std::vector<std::pair<Id, HttpAnswer>> taken;
    {
      const std::scoped_lock lock(mutex);
      taken.swap(computed);
    }
    for (const auto& [id, out] : taken)
      if (const auto at = connections.find(id); at != connections.end()) answer(at->second, out);
  }

  // Nobody knows where another request would begin, so the connection ends with it.
  void refuse(Connection& connection, const Refusal& refusal) const {
    connection.closes = connection.with_body = true;
    answer(connection, to_answer(refusal));
  }

  void answer(Connection& connection, const HttpAnswer& answer) const {
    connection.left.reset();
    connection.answer = to_bytes(answer, connection.with_body, connection.closes ? 0 : options.idle_seconds);
    connection.sent = 0;
    enter(connection, State::sending, options.send_seconds);
  }

  void end_what_is_late() {
    const Time now = Clock::now();
    for (auto at = connections.begin(); at != connections.end();) {
      Connection& connection = at->second;
      const bool late = connection.state != State::answering && now >= connection.deadline;
      const bool asks = connection.state == State::head || connection.state == State::body;
      if (late && asks) {
        const bool head = connection.state == State::head;
        refuse(connection, Refusal(408, fmt::format("the {} came too slowly: {} must be here within {} s.",
                                                    head ? "headers" : "body", head ? "they" : "it",
                                                    head ? options.head_seconds : options.body_seconds)));
      }
      at = late && !asks ? connections.erase(at) : std::next(at);
    }
  }
};

HttpServer::HttpServer(const HttpServerOptions& options, Answer answer, TakesLong takes_long)
    : impl_(std::make_unique<Impl>(options, std::move(answer), std::move(takes_long))) {}
HttpServer::~HttpServer() = default;

int HttpServer::port() const { return impl_->port; }
bool HttpServer::listens() const { return !impl_->ended; }

}  // namespace caravan::serve
