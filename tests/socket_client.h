// HTTP by hand over a socket, so that a test can send what no library would.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

struct Reply {
  int status = 0;  // 0: the connection was closed without an answer
  std::string head, body;
};

class Connection {
 public:
  explicit Connection(int port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(uint16_t(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{20, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("no connection to port " + std::to_string(port));
  }
  ~Connection() { close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void send(const std::string& text) {
    for (size_t done = 0; done < text.size();) {
      const ssize_t some = ::send(socket_, text.data() + done, text.size() - done, MSG_NOSIGNAL);
      if (some <= 0) return;  // the server has heard enough
      done += size_t(some);
    }
  }

  // One answer, which says how long it is. What comes after it is kept for the next.
  Reply receive() {
    Reply out = receive_head();
    const size_t said = out.head.find("Content-Length: ");
    const size_t length = said == std::string::npos ? 0 : std::stoul(out.head.substr(said + 16));
    while (got_.size() < length)
      if (!more()) break;
    out.body = got_.substr(0, length);
    got_.erase(0, length);
    return out;
  }
  // An answer that has no body, whatever it says.
  Reply receive_head() {
    size_t end;
    while ((end = got_.find("\r\n\r\n")) == std::string::npos)
      if (!more()) return {};
    Reply out;
    out.head = got_.substr(0, end + 2);
    out.status = std::atoi(out.head.c_str() + out.head.find(' '));
    got_.erase(0, end + 4);
    return out;
  }
  bool is_open() const { return open_; }  // as far as receiving told

 private:
  bool more() {
    char buffer[65536];
    const ssize_t some = recv(socket_, buffer, sizeof buffer, 0);
    if (some > 0) got_.append(buffer, size_t(some));
    open_ = some > 0;
    return open_;
  }

  int socket_;
  bool open_ = true;
  std::string got_;
};

inline std::string get_request(const std::string& path) {
  std::string out = "GET ";  // not by `+`: GCC 12 then warns of a copy that it does not make (-O3 -Wall)
  out += path;
  out += " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  return out;
}
inline std::string post_request(const std::string& path, const std::string& body) {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}
