#include "apps/serve/server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "apps/json_line.h"
#include "apps/serve/http_server.h"
#include "apps/serve/json_fields.h"
#include "apps/serve/page.h"
#include "caravan/base/error.h"
#include "caravan/base/list_text.h"

namespace caravan::serve {

namespace {

using Json = nlohmann::ordered_json;

HttpAnswer json_answer(const Json& json) { return {200, "application/json", app::json_text(json)}; }

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

Json playground_answer(Playground& playground, JsonFields request, const std::atomic<bool>& left) {
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
  const PlaygroundView view = playground.advance(session, wanted, steps, reset, left);
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
  std::function<HttpAnswer(const std::string& body, const std::atomic<bool>& left)> answer;
};

constexpr const char* kPlayground = "/api/playground";  // may compile, which takes seconds

std::vector<Route> make_routes(Digits& digits, Playground& playground) {
  using Left = std::atomic<bool>;
  std::vector<Route> out;
  auto add = [&](const char* method, const char* path,
                 std::function<Json(const std::string& body, const Left& left)> answer) {
    out.push_back({method, path, [answer = std::move(answer)](const std::string& body, const Left& left) {
                     return json_answer(answer(body, left));
                   }});
  };
  add("GET", "/api/status", [&](const std::string&, const Left&) { return status_answer(digits); });
  add("GET", "/api/examples", [&](const std::string&, const Left&) { return examples_answer(digits); });
  add("POST", "/api/predict",
      [&](const std::string& body, const Left&) { return predict_answer(digits, JsonFields(body)); });
  add("POST", kPlayground,
      [&](const std::string& body, const Left& left) { return playground_answer(playground, JsonFields(body), left); });
  for (const PageFile& file : page_files()) {
    auto send_file = [&file](const std::string&, const Left&) {
      return HttpAnswer{200, content_type(file.path), std::string(file.content)};
    };
    out.push_back({"GET", std::string(file.path), send_file});
    if (file.path == "/index.html") out.push_back({"GET", "/", send_file});
  }
  return out;
}

}  // namespace

struct Server::Impl {
  const std::string host;
  const bool on_loopback;
  const std::vector<Route> routes;
  HttpServer http;  // last: it answers with the others

  Impl(const ServerOptions& options, Digits& digits, Playground& playground)
      : host(checked(options.host)),
        on_loopback(leads_to_loopback(host)),
        routes(make_routes(digits, playground)),
        http(
            {.host = options.host,
             .port = options.port,
             .head_seconds = options.head_seconds,
             .body_seconds = options.body_seconds},
            [this](const HttpRequest& request, const std::atomic<bool>& left) { return answer(request, left); },
            [](const HttpRequest& request) { return request.path == kPlayground; }) {}

  static std::string checked(const std::string& host) {
    if (host.empty())
      throw ConfigError("the address to listen on is empty, which would be every one; 0.0.0.0 says so.");
    return host;
  }

  // A page elsewhere may have its own name lead here; such requests carry that name.
  bool is_for_us(const std::string& name) const { return !on_loopback || name == host || is_loopback(name); }

  void check(const HttpRequest& request) const {
    if (request.count("host") > 1) throw Refusal(400, "the request has more than one header Host.");
    const std::string name = without_port(request.header("host"));
    if (!is_for_us(name)) throw Refusal(421, fmt::format("this server answers for localhost, not for `{}`.", name));
    if (request.method != "POST") return;
    if (media_type(request.header("content-type")) != "application/json")
      throw Refusal(415, "the body must be JSON, with the header Content-Type: application/json.");
    if (request.count("content-length") == 0)
      throw Refusal(411, "the request must say how long its body is, with the header Content-Length.");
  }

  HttpAnswer answer(const HttpRequest& request, const std::atomic<bool>& left) const {
    check(request);
    const std::string method = request.method == "HEAD" ? "GET" : request.method;
    std::string allowed;
    for (const Route& route : routes) {
      if (route.path != request.path) continue;
      if (route.method == method) return answer(route, unpacked_body(request), left);
      add_to_list(allowed, route.method);
    }
    if (allowed.empty()) throw Refusal(404, fmt::format("there is no `{}`.", request.path));
    HttpAnswer out =
        to_answer(Refusal(405, fmt::format("`{}` is asked with {}, not {}.", request.path, allowed, request.method)));
    out.headers.emplace_back("Allow", allowed);
    return out;
  }

  static HttpAnswer answer(const Route& route, const std::string& body, const std::atomic<bool>& left) {
    try {
      return route.answer(body, left);
    } catch (const UserError& error) {
      throw Refusal(400, error.what());
    } catch (const NotReady& error) {
      throw Refusal(503, error.what());
    }
  }
};

Server::Server(const ServerOptions& options, Digits& digits, Playground& playground)
    : impl_(std::make_unique<Impl>(options, digits, playground)) {}
Server::~Server() = default;

bool Server::listens() const { return impl_->http.listens(); }
bool Server::on_loopback() const { return impl_->on_loopback; }

std::string Server::address() const {
  const bool v6 = impl_->host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", v6 ? "[" : "", impl_->host, v6 ? "]" : "", impl_->http.port());
}

}  // namespace caravan::serve
