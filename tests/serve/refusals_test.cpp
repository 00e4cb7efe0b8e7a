// Requests that are wrong, too large or for another host: what each is answered.
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>

#include "serve/serve.h"

namespace caravan::serve {
namespace {

string gzipped(const string& text) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY);  // + 16: with gzip's header
  string out(1000 + text.size() / 2, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = uInt(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = uInt(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST_F(Serve, RefusesWhatIsWrongWithOneSentence) {
  with_model();
  auto pixels = [](Json first, size_t count = 784) {
    Json list(count, 0.5);
    list[0] = first;
    return Json{{"pixels", list}}.dump();
  };
  auto play = [](Json fields) {
    if (!fields.contains("session")) fields["session"] = "a-session";
    return fields.dump();
  };
  const string get_head = " HTTP/1.1\r\nHost: localhost\r\n",
               json_head = get_head + "Content-Type: application/json\r\n";
  auto packed = [&](const string& body) {
    const string content = gzipped(body);
    return "POST /api/predict" + json_head +
           "Content-Encoding: gzip\r\nContent-Length: " + std::to_string(content.size()) + "\r\n\r\n" + content;
  };
  struct {
    string request;
    int status;
    string phrase;
  } rows[] = {
      {get_request("/nothing"), 404, "there is no `/nothing`"},
      {get_request("/../etc/passwd"), 404, "there is no"},
      {get_request("/api"), 404, "there is no `/api`"},
      {get_request("/\xff\xfe"), 404, "there is no"},
      {get_request("/api/predict"), 405, "`/api/predict` is asked with POST, not GET"},
      {post_request("/api/status", "{}"), 405, "is asked with GET, not POST"},
      {post_request("/", "{}"), 405, "is asked with GET"},
      {"PUT /api/predict" + json_head + "Content-Length: 2\r\n\r\n{}", 405, "not PUT"},
      {"DELETE /api/predict" + json_head + "Content-Length: 0\r\n\r\n", 405, "not DELETE"},
      {"OPTIONS /api/predict" + get_head + "\r\n", 405, "not OPTIONS"},
      {"BREW /" + get_head + "\r\n", 400, "not one that this server understands"},
      {"hello\r\n\r\n", 400, "not one that this server understands"},
      {get_request("/" + string(20000, 'x')), 414, "the address is longer than 8192 bytes"},
      {"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + string(20000, 'x') + "\r\n\r\n", 431,
       "the headers are longer than 16384 bytes"},
      {"GET / HTTP/1.1\r\n" + repeated("X: y\r\n", 101) + "\r\n", 431, "more than 100 headers"},
      {"GET /  HTTP/1.1\r\n\r\n", 400, "not one that this server understands"},
      {"GET / HTTP/2\r\n\r\n", 400, "not one that this server understands"},
      {"GET /\x01 HTTP/1.1\r\n\r\n", 400, "not one that this server understands"},
      {"GET /" + get_head + "no colon\r\n\r\n", 400, "not one that this server understands"},
      {"GET /" + get_head + "X : space before the colon\r\n\r\n", 400, "not one that this server understands"},
      {"GET /" + get_head + "X: folded\r\n into two lines\r\n\r\n", 400, "not one that this server understands"},
      {"GET /" + get_head + "X: bare\nline end\r\n\r\n", 400, "not one that this server understands"},
      {"GET /" + get_head + string("X: zero\0byte\r\n\r\n", 17), 400, "not one that this server understands"},
      {"POST /api/predict" + json_head + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400,
       "not one that this server understands"},
      {"POST /api/predict" + json_head + "Content-Length: 2, 2\r\n\r\n{}", 400, "not one that this server understands"},
      {"POST /api/predict" + json_head + "Content-Length: +2\r\n\r\n{}", 400, "not one that this server understands"},
      {"POST /api/predict" + json_head + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
       411, "how long its body is"},
      {"POST /api/predict" + json_head + "Content-Encoding: br\r\nContent-Length: 2\r\n\r\n{}", 415,
       "packed with gzip, and with nothing else"},
      {"POST /api/predict" + json_head + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", 400,
       "the body is not gzip"},
      {"POST /api/predict" + get_head + "Content-Length: 2\r\n\r\n{}", 415, "must be JSON"},
      {"POST /api/predict" + get_head + "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", 415, "must be JSON"},
      {form("/api/predict", "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--x--\r\n"), 415,
       "must be JSON"},
      {"POST /api/predict" + get_head + "Content-Type: application/jsonx\r\nContent-Length: 2\r\n\r\n{}", 415,
       "must be JSON"},
      {"POST /api/predict" + get_head + "Content-Type: application/json, text/plain\r\nContent-Length: 2\r\n\r\n{}",
       415, "must be JSON"},
      {"POST /api/predict" + get_head + "Content-Type: APPLICATION/JSON\r\nContent-Length: 2\r\n\r\n{}", 400,
       "`pixels` must be a list"},
      {"POST /api/predict" + get_head + "Content-Type: Application/json ; charset=utf-8\r\nContent-Length: 2\r\n\r\n{}",
       400, "`pixels` must be a list"},
      {"GET /" + get_head + "Host: localhost\r\n\r\n", 400, "more than one header Host"},
      {"GET /" + get_head + "Host: example.test\r\n\r\n", 400, "more than one header Host"},
      {form("/api/predict", "no form at all"), 415, "must be JSON"},
      {"POST /api/predict" + json_head + "\r\n", 411, "how long its body is"},
      {post_request("/api/predict", string(64 * 1024 + 1, ' ')), 413, "longer than 65536 bytes"},
      {"POST /api/predict" + json_head + "Content-Length: 99999999999999999999\r\n\r\n{}", 413,
       "longer than 65536 bytes"},
      {"POST /api/predict" + json_head + "Transfer-Encoding: chunked\r\n\r\n20000\r\n" + string(0x20000, ' ') +
           "\r\n0\r\n\r\n",
       411, "how long its body is"},
      {packed(string(10'000'000, ' ')), 413, "longer than 65536 bytes"},
      {packed("{}"), 400, "`pixels` must be a list"},
      {post_request("/api/predict", ""), 400, "the body is not JSON (it is empty)"},
      {post_request("/api/predict", "{\"pixels\": [1, 2"), 400,
       "the body is not JSON (its 16 bytes end in the middle)"},
      {post_request("/api/predict", "{\"pixels\": [1 2]}"), 400, "the body is not JSON (at byte 15 of 17)"},
      {post_request("/api/predict", "\xff\xfe"), 400, "the body is not JSON"},
      {post_request("/api/predict", "{\"pixels\": [NaN]}"), 400, "the body is not JSON"},
      {post_request("/api/predict", "{\"pixels\": [1e999]}"), 400, "a number that is too large"},
      {post_request("/api/predict", string(60000, '[')), 400, "the body is not JSON"},
      {post_request("/api/predict", "[]"), 400, "must be a JSON object, not array"},
      {post_request("/api/predict", "{}"), 400, "`pixels` must be a list of 784 numbers"},
      {post_request("/api/predict", "{\"pixels\": 3}"), 400, "`pixels` must be a list of 784 numbers"},
      {post_request("/api/predict", pixels(0.5, 783)), 400, "`pixels` has 783 numbers; it must have 784"},
      {post_request("/api/predict", pixels(0.5, 785)), 400, "`pixels` has 785 numbers"},
      {post_request("/api/predict", pixels("x")), 400, "`pixels[0]` must be a number, not string"},
      {post_request("/api/predict", pixels(nullptr)), 400, "`pixels[0]` must be a number, not null"},
      {post_request("/api/predict", pixels(1.5)), 400, "`pixels[0]` is 1.5; it must be from 0 to 1"},
      {post_request("/api/predict", pixels(-1)), 400, "`pixels[0]` is -1; it must be from 0 to 1"},
      {post_request("/api/predict", "{\"pixel\": [], \"pixels\":" + Json(std::vector<float>(784)).dump() + "}"), 400,
       "there is no field `pixel`; there are: pixels"},
      {post_request("/api/playground", "{}"), 400, "`session` must be text of 8 to 64"},
      {post_request("/api/playground", play({{"session", "short"}})), 400, "`session` must be text"},
      {post_request("/api/playground", play({{"session", "../../etc/passwd"}})), 400, "`session` must be text"},
      {post_request("/api/playground", play({{"session", string(65, 'a')}})), 400, "`session` must be text"},
      {post_request("/api/playground", play({{"steps", 1001}})), 400, "`steps` is 1001; it must be from 0 to 1000"},
      {post_request("/api/playground", play({{"steps", -1}})), 400, "`steps` is -1"},
      {post_request("/api/playground", play({{"steps", 1.5}})), 400, "`steps` must be a whole number"},
      {post_request("/api/playground", play({{"steps", uint64_t(1) << 63}})), 400, "`steps` is 9.2"},
      {post_request("/api/playground", play({{"width", 65}})), 400, "`width` is 65; it must be from 1 to 64"},
      {post_request("/api/playground", play({{"depth", 0}})), 400, "`depth` is 0; it must be from 1 to 4"},
      {post_request("/api/playground", play({{"rate", 0}})), 400, "`rate` is 0; it must be from 1e-06 to 10"},
      {post_request("/api/playground", play({{"rate", "fast"}})), 400, "`rate` must be a number, not string"},
      {post_request("/api/playground", play({{"noise", 0.6}})), 400, "`noise` is 0.6; it must be from 0 to 0.5"},
      {post_request("/api/playground", play({{"seed", -1}})), 400, "`seed` is -1"},
      {post_request("/api/playground", play({{"reset", 1}})), 400, "`reset` must be true or false, not number"},
      {post_request("/api/playground", play({{"data", "cubes"}})), 400,
       "`data` must be one of moons, circles, spirals"},
      {post_request("/api/playground", play({{"data", 1}})), 400, "`data` must be one of moons"},
      {post_request("/api/playground", play({{"activation", "step"}})), 400, "`activation` must be one of tanh"},
      {post_request("/api/playground", play({{"speed", 1}})), 400, "there is no field `speed`"},
  };
  for (const auto& [request, status, phrase] : rows) {
    const Reply reply = raw(request);
    const string what = request.substr(0, 120);
    EXPECT_EQ(reply.status, status) << what << "\n" << reply.body;
    ASSERT_TRUE(Json::accept(reply.body)) << what << "\n" << reply.body;
    EXPECT_NE(Json::parse(reply.body).value("error", "").find(phrase), string::npos) << what << "\n" << reply.body;
  }
  EXPECT_NE(raw(get_request("/api/predict")).head.find("Allow: POST\r\n"), string::npos);
  EXPECT_EQ(get("/api/status").status, 200);  // still there
}

TEST_F(Serve, AnswersForLoopbackNamesAlone) {
  auto status = [&](const string& host) {
    return raw("GET /api/status HTTP/1.1\r\nHost: " + host + "\r\n\r\n").status;
  };
  for (const string host :
       {"localhost", "127.0.0.1", "[::1]", "localhost:8080", "127.0.0.1:8080", "[::1]:8080", "127.0.0.2"})
    EXPECT_EQ(status(host), 200) << host;
  for (const string host : {"example.test", "example.test:8080", "localhost.example.test", "127.0.0.1.example.test",
                            "1.2.3.4", "", "[::2]:80", "10.0.0.1:8080"})
    EXPECT_EQ(status(host), 421) << host;
  EXPECT_EQ(raw("GET /api/status HTTP/1.1\r\n\r\n").status, 421);
}

TEST_F(Serve, LoopbackByAnotherSpellingIsLoopback) {
  const Server other({.host = "127.1", .port = 0}, digits_, playground_);
  for (const auto& [host, status] : {std::pair{"example.test", 421}, {"127.0.0.1", 200}, {"127.1", 200}}) {
    Connection connection(port_of(other));
    connection.send(string("GET /api/status HTTP/1.1\r\nHost: ") + host + "\r\n\r\n");
    EXPECT_EQ(connection.receive().status, status) << host;
  }
}

TEST_F(Serve, AnswersForEveryNameWhereItWasToldToListenToAll) {
  const Server open({.host = "0.0.0.0", .port = 0}, digits_, playground_);
  Connection connection(port_of(open));
  connection.send("GET /api/status HTTP/1.1\r\nHost: desk.example.test\r\n\r\n");
  EXPECT_EQ(connection.receive().status, 200);
}

TEST_F(Serve, AConnectionIsUsedAgainAfterARefusal) {
  with_model();
  Connection connection(port());
  for (int i = 0; i < 3; ++i) {
    connection.send(post_request("/api/predict", "{\"pixels\": []}"));
    EXPECT_EQ(connection.receive().status, 400);
    connection.send(post_request("/nowhere", "{}"));
    EXPECT_EQ(connection.receive().status, 404);
    connection.send("POST /api/predict HTTP/1.1\r\nHost: example.test\r\nContent-Length: 5\r\n\r\nhello");
    EXPECT_EQ(connection.receive().status, 421);
    connection.send(
        form("/api/predict", string(20'000, ' ') + post_request("/api/playground", "{\"session\": \"smuggled\"}")));
    EXPECT_EQ(connection.receive().status, 415);
    connection.send(post_request("/api/predict", Json{{"pixels", stroke(9)}}.dump()));
    EXPECT_EQ(connection.receive().status, 200);
  }
  EXPECT_EQ(playground_.sessions(), 0u);
}

}  // namespace
}  // namespace caravan::serve
