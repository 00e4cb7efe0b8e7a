#include "serve/serve.h"

#include "caravan/nn/nn.h"

namespace caravan::serve {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

string repeated(const string& text, size_t n) {
  string out;
  for (size_t k = 0; k < n; ++k) out += text;
  return out;
}

int port_of(const Server& server) { return std::stoi(server.address().substr(server.address().rfind(':') + 1)); }

std::vector<float> stroke(int column) {
  std::vector<float> out(kDigitPixels);
  for (int row = 4; row < 24; ++row) out[size_t(row * kDigitSide + column)] = 1;
  return out;
}

DigitModel random_model() {
  Tensor pixels = input("pixels", {.batch = Extents{}, .input = Extents{}, .output = {28, 28, 1}});
  nn::Conv2d conv("conv", {.channels = 4, .kernel = 3, .stride = 2});
  nn::Linear hidden("hidden", {.output = {20}}), last("last", {.output = {10}});
  Tensor c = relu(conv(pixels)), h = relu(hidden(nn::Flatten()(c)));
  return compiled_model("random weights", Context({.seed = 7, .threads = 1}), pixels,
                        {{"conv", c}, {"hidden", h}, {"probabilities", nn::softmax(last(h))}});
}

string form(const string& path, const string& body) {
  return "POST " + path +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

int shut_down_listening(int port, bool with_rival) {
  int out = 0;
  for (int fd = 3; fd < 1024; ++fd) {
    int accepts = 0;
    socklen_t length = sizeof accepts;
    sockaddr_in address{};
    socklen_t size = sizeof address;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &length) != 0 || !accepts) continue;
    getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    if (ntohs(address.sin_port) != port) continue;
    const int yes = 1, rival = socket(AF_INET, SOCK_STREAM, 0);  // until the end of the test's process
    if (with_rival) {
      for (int shared : {fd, rival}) setsockopt(shared, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes);
      EXPECT_EQ(bind(rival, reinterpret_cast<sockaddr*>(&address), size), 0);
      EXPECT_EQ(listen(rival, 1), 0);
    }
    out += shutdown(fd, SHUT_RDWR) == 0;
    if (!with_rival) close(rival);
    break;
  }
  return out;
}

}  // namespace caravan::serve
