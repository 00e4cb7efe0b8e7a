#include "apps/serve/server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <httplib.h>
#include <netdb.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "apps/serve/json_fields.h"
#include "apps/serve/page.h"
#include "caravan/base/error.h"

namespace caravan::serve {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostBytes = 64 * 1024;  // of a request's body; 784 pixels written in full are a quarter of it
constexpr size_t kThreads = 64;           // a connection that is kept alive occupies one
constexpr int kStillSeconds = 2;          // within a request; then it is given up
constexpr int kIdleSeconds = 1;           // then it is closed; a page that asks for more opens another

struct Refusal {
  int status;
  std::string sentence;
};

void send_json(httplib::Response& response, int status, const Json& json) {
  response.status = status;
  response.set_content(json.dump(-1, ' ', false, Json::error_handler_t::replace), "application/json");
}
void send(httplib::Response& response, const Refusal& refusal) {
  send_json(response, refusal.status, {{"error", refusal.sentence}});
}

// Sends it and closes the connection: the library does so where a provider of content gives up. What the client still
// sends would else be taken for its next request, and occupy the thread for as long again.
void send_and_close(httplib::Response& response, const Refusal& refusal) {
  send(response, refusal);
  const std::string body = std::move(response.body);
  response.body.clear();
  response.headers.erase("Content-Type");
  response.set_content_provider(body.size(), "application/json",
                                [body](size_t offset, size_t length, httplib::DataSink& sink) {
                                  sink.write(body.data() + offset, length);
                                  return false;
                                });
}

std::string content_type(std::string_view path) {
  if (path.ends_with(".css")) return "text/css; charset=utf-8";
  if (path.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (path.ends_with(".svg")) return "image/svg+xml";
  return "text/html; charset=utf-8";
}

// Four decimals are enough for a picture.
Json rounded(const std::vector<float>& values) {
  Json out = Json::array();
  for (float v : values) out.push_back(std::round(double(v) * 1e4) / 1e4);
  return out;
}

// "Application/JSON; charset=utf-8" is application/json.
std::string media_type(const std::string& header) {
  std::string out = header.substr(0, header.find(';'));
  while (!out.empty() && (out.back() == ' ' || out.back() == '\t')) out.pop_back();
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return out;
}

std::string without_port(const std::string& host) {
  const size_t colon = host.rfind(':'), bracket = host.rfind(']');
  const bool has_port = colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
  return has_port ? host.substr(0, colon) : host;
}

bool is_loopback(const std::string& host) {
  in_addr address;
  if (inet_pton(AF_INET, host.c_str(), &address) == 1) return ntohl(address.s_addr) >> 24 == 127;
  return host == "localhost" || host == "::1" || host == "[::1]";
}

// Are all addresses that the name stands for of loopback? A machine's own name often is.
bool leads_to_loopback(const std::string& host) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0) return is_loopback(host);
  bool out = true;
  for (const addrinfo* a = list; a; a = a->ai_next) {
    if (a->ai_family == AF_INET)
      out = out && ntohl(reinterpret_cast<const sockaddr_in*>(a->ai_addr)->sin_addr.s_addr) >> 24 == 127;
    else
      out = out && a->ai_family == AF_INET6 &&
            IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(a->ai_addr)->sin6_addr);
  }
  freeaddrinfo(list);
  return out;
}

bool says_its_length(const httplib::Request& request) {
  return request.has_header("Content-Length") || request.has_header("Transfer-Encoding");
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// --- the API: a JSON object in, a JSON object out ---

Json status_answer(const Digits& digits) {
  const Digits::Status status = digits.status();
  return {{"ready", status.ready}, {status.ready ? "model" : "waiting", status.text}};
}

Json examples_answer(const Digits& digits) {
  Json out = Json::array();
  for (const DigitExample& e : digits.examples()) out.push_back({{"label", e.label}, {"pixels", rounded(e.pixels)}});
  return {{"examples", out}};
}

Json predict_answer(Digits& digits, JsonFields request) {
  const std::vector<float> pixels = request.numbers("pixels", kDigitPixels, 0, 1);
  request.no_more();
  const auto start = std::chrono::steady_clock::now();
  const std::vector<LayerValues> layers = digits.predict(pixels);
  const double milliseconds = milliseconds_since(start);
  const std::vector<float>& probabilities = layers.back().values;
  Json shown = Json::array();
  for (const LayerValues& layer : layers)
    shown.push_back({{"name", layer.name}, {"sizes", layer.sizes}, {"values", rounded(layer.values)}});
  return {{"digit", std::max_element(probabilities.begin(), probabilities.end()) - probabilities.begin()},
          {"probabilities", probabilities},
          {"layers", shown},
          {"milliseconds", milliseconds}};
}

Json playground_answer(Playground& playground, JsonFields request) {
  const std::string session = request.id("session");
  const int64_t steps = request.whole("steps", 0, 1000, 0);
  const bool reset = request.flag("reset", false);
  PlaygroundSettings wanted;
  wanted.data = request.choice("data", data_names(), wanted.data);
  wanted.noise = request.number("noise", 0, 0.5, wanted.noise);
  wanted.activation = request.choice("activation", activation_names(), wanted.activation);
  wanted.width = request.whole("width", 1, 64, wanted.width);
  wanted.depth = request.whole("depth", 1, 4, wanted.depth);
  wanted.rate = request.number("rate", 1e-6, 10, wanted.rate);
  wanted.seed = uint64_t(request.whole("seed", 0, INT32_MAX, int64_t(wanted.seed)));
  request.no_more();

  const auto start = std::chrono::steady_clock::now();
  const PlaygroundView view = playground.advance(session, wanted, steps, reset);
  Json points = Json::array();
  for (int64_t i = 0; i < view.points.labels.size(); ++i)
    points.push_back({std::round(view.points.points.at(2 * i) * 1e4) / 1e4,
                      std::round(view.points.points.at(2 * i + 1) * 1e4) / 1e4, int(view.points.labels.at(i))});
  // Numbers that are not finite are null, as JSON has no other word for them.
  return {{"steps", view.steps},
          {"loss", view.loss},
          {"accuracy", view.accuracy},
          {"square", {{"left", view.left}, {"top", view.top}, {"size", view.size}}},
          {"field", {{"side", kFieldSide}, {"values", rounded(view.field)}}},
          {"points", points},
          {"milliseconds", milliseconds_since(start)}};
}

struct Route {
  std::string method, path;
  std::function<void(const std::string& body, httplib::Response& response)> answer;
};

std::vector<Route> make_routes(Digits& digits, Playground& playground) {
  std::vector<Route> out;
  auto add = [&](std::string method, std::string path, std::function<Json(const std::string& body)> answer) {
    out.push_back({std::move(method), std::move(path), [=](const std::string& body, httplib::Response& response) {
                     send_json(response, 200, answer(body));
                   }});
  };
  add("GET", "/api/status", [&](const std::string&) { return status_answer(digits); });
  add("GET", "/api/examples", [&](const std::string&) { return examples_answer(digits); });
  add("POST", "/api/predict", [&](const std::string& body) { return predict_answer(digits, JsonFields(body)); });
  add("POST", "/api/playground",
      [&](const std::string& body) { return playground_answer(playground, JsonFields(body)); });
  for (const PageFile& file : page_files()) {
    auto send_file = [&file](const std::string&, httplib::Response& response) {
      response.set_content(file.content.data(), file.content.size(), content_type(file.path));
    };
    out.push_back({"GET", std::string(file.path), send_file});
    if (file.path == "/index.html") out.push_back({"GET", "/", send_file});
  }
  return out;
}

}  // namespace

struct Server::Impl {
  const std::string host;
  const std::chrono::duration<double> body_time;
  const bool on_loopback;
  const std::vector<Route> routes;
  int port = 0;
  httplib::Server http;
  std::atomic<bool> stopping = false, ended = false;
  std::thread listening;

  Impl(const ServerOptions& options, Digits& digits, Playground& playground)
      : host(options.host),
        body_time(options.body_seconds),
        on_loopback(leads_to_loopback(host)),
        routes(make_routes(digits, playground)) {
    http.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    http.set_keep_alive_timeout(kIdleSeconds);
    http.set_keep_alive_max_count(1'000'000);
    http.set_read_timeout(kStillSeconds);
    http.set_tcp_nodelay(true);
    http.set_payload_max_length(kMostBytes);
    // Not the library's own options: those let a second server take the same port.
    http.set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    http.set_default_headers({{"Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'"},
                              {"X-Content-Type-Options", "nosniff"},
                              {"Referrer-Policy", "no-referrer"},
                              {"Cache-Control", "no-store"}});
    auto without_body = [this](const httplib::Request& request, httplib::Response& response) {
      answer(request, response, nullptr);
    };
    auto with_body = [this](const httplib::Request& request, httplib::Response& response,
                            const httplib::ContentReader& body) { answer(request, response, &body); };
    const char* everything = R"([\s\S]*)";
    http.Get(everything, without_body).Options(everything, without_body);
    http.Post(everything, with_body).Put(everything, with_body);
    http.Patch(everything, with_body).Delete(everything, with_body);
    http.set_error_handler([this](const httplib::Request&, httplib::Response& response) {
      if (!response.body.empty()) return;
      if (response.status == 408)
        send_and_close(
            response, {408, fmt::format("the body came too slowly: it must be here within {} s, with no pause of {} s.",
                                        body_time.count(), kStillSeconds)});
      else if (response.status == 413)
        send(response, {413, fmt::format("the body is longer than {} bytes.", kMostBytes)});
      else
        send(response, {response.status, "the request is not one that this server understands."});
    });

    if (host.empty())
      throw ConfigError("the address to listen on is empty, which would be every one; 0.0.0.0 says so.");
    if (options.port == 0)
      port = http.bind_to_any_port(host);
    else if (http.bind_to_port(host, options.port))
      port = options.port;
    if (port <= 0)
      throw BackendError(options.port == 0
                             ? fmt::format("cannot listen on {}: this machine has no such address.", host)
                             : fmt::format("cannot listen on {}:{}: the port is taken or the address is not of this "
                                           "machine; --port 0 takes a port that is free.",
                                           host, options.port));
    listening = std::thread([this] {
      // The library gives up at the first accept that fails; a client must not be able to end the page.
      do http.listen_after_bind();
      while (!stopping && http.bind_to_port(host, port));
      ended = true;
    });
  }

  ~Impl() {
    stopping = true;
    for (; !ended; std::this_thread::sleep_for(std::chrono::milliseconds(1)))
      http.stop();  // which is not heard before it listens
    listening.join();
  }

  // A page elsewhere may have its own name lead here; such requests carry that name.
  bool is_for_us(const std::string& name) const { return !on_loopback || name == host || is_loopback(name); }

  std::optional<Refusal> refused(const httplib::Request& request) const {
    if (request.get_header_value_count("Host") > 1) return Refusal{400, "the request has more than one header Host."};
    const std::string name = without_port(request.get_header_value("Host"));
    if (!is_for_us(name)) return Refusal{421, fmt::format("this server answers for localhost, not for `{}`.", name)};
    if (request.method != "POST") return std::nullopt;
    if (media_type(request.get_header_value("Content-Type")) != "application/json")
      return Refusal{415, "the body must be JSON, with the header Content-Type: application/json."};
    if (!says_its_length(request))
      return Refusal{411, "the request must say how long its body is, with the header Content-Length."};
    return std::nullopt;
  }

  const Route* find(const httplib::Request& request, httplib::Response& response) const {
    const std::string method = request.method == "HEAD" ? "GET" : request.method;
    std::string allowed;
    for (const Route& route : routes) {
      if (route.path != request.path) continue;
      if (route.method == method) return &route;
      allowed += (allowed.empty() ? "" : ", ") + route.method;
    }
    if (allowed.empty()) {
      send(response, {404, fmt::format("there is no `{}`.", request.path)});
    } else {
      response.set_header("Allow", allowed);
      send(response, {405, fmt::format("`{}` is asked with {}, not {}.", request.path, allowed, request.method)});
    }
    return nullptr;
  }

  // The body of a request that says how long it is. Counted here, because the library counts neither chunks nor what a
  // compressed body becomes. Nothing: there was too much of it, it broke off, or it came too slowly.
  std::optional<std::string> read_body(const httplib::Request& request, httplib::Response& response,
                                       const httplib::ContentReader& reader) const {
    std::string out;
    if (!says_its_length(request)) return out;
    // The library would parse a form and stop where it does not like it; the rest, which the sender of the form chose,
    // would be the next request. The request is the library's own, and not const.
    if (request.is_multipart_form_data()) const_cast<httplib::Request&>(request).headers.erase("Content-Type");
    const auto start = std::chrono::steady_clock::now();
    auto time = [&] { return std::chrono::steady_clock::now() - start; };
    const bool whole = reader([&](const char* data, size_t size) {
      out.append(data, size);
      return out.size() <= kMostBytes && time() < body_time;
    });
    if (whole) return out;
    // The error handler has a sentence for each.
    const bool late = time() >= std::min<std::chrono::duration<double>>(body_time, std::chrono::seconds(kStillSeconds));
    const bool too_long = out.size() > kMostBytes || response.status == 413;  // or the library saw it by its length
    response.status = too_long ? 413 : late ? 408 : std::max(response.status, 400);
    return std::nullopt;
  }

  void answer(const httplib::Request& request, httplib::Response& response,
              const httplib::ContentReader* reader) const {
    std::string body;
    if (reader) {  // also where it is refused next: what is left unread would be taken for the next request
      std::optional<std::string> read = read_body(request, response, *reader);
      if (!read) return;
      body = std::move(*read);
    }
    if (const std::optional<Refusal> refusal = refused(request)) return send(response, *refusal);
    const Route* route = find(request, response);
    if (!route) return;
    try {
      route->answer(body, response);
    } catch (const UserError& error) {
      send(response, {400, error.what()});
    } catch (const NotReady& error) {
      send(response, {503, error.what()});
    } catch (const std::exception& error) {
      send(response, {500, error.what()});
    }
  }
};

Server::Server(const ServerOptions& options, Digits& digits, Playground& playground)
    : impl_(std::make_unique<Impl>(options, digits, playground)) {}
Server::~Server() = default;

bool Server::listens() const { return !impl_->ended; }
bool Server::on_loopback() const { return impl_->on_loopback; }

std::string Server::address() const {
  const bool v6 = impl_->host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", v6 ? "[" : "", impl_->host, v6 ? "]" : "", impl_->port);
}

}  // namespace caravan::serve
