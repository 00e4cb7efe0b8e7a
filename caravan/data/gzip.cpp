#include "caravan/data/gzip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

#include "caravan/base/error.h"
#include "caravan/data/atomic_file.h"

namespace caravan::data {

namespace {

constexpr int kGzip = 15 + 16, kRaw = -15;  // the largest window, and zlib's way to say which frame
constexpr size_t kChunk = 1 << 16;          // zlib counts in 32 bits, so both sides are fed in pieces

// One call of inflate or deflate: takes from the front of `in`, appends to `out`.
template <class Step>
int advance(z_stream& stream, std::string_view& in, std::string& out, Step step) {
  const size_t before = out.size(), give = std::min(in.size(), kChunk);
  out.resize(before + kChunk);
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(in.data()));
  stream.avail_in = uInt(give);
  stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
  stream.avail_out = uInt(kChunk);
  const int status = step(&stream, give == in.size());
  in.remove_prefix(give - stream.avail_in);
  out.resize(before + kChunk - stream.avail_out);
  return status;
}

[[noreturn]] void no_memory() { throw BackendError("zlib has no memory left."); }

class Inflater {
 public:
  Inflater(std::string_view in, int frame) : rest_(in) {
    if (inflateInit2(&stream_, frame) != Z_OK) no_memory();
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }

  // The next piece; Z_STREAM_END where a stream is complete, Z_BUF_ERROR where the input ended before.
  int next(std::string& out) {
    const int status = advance(stream_, rest_, out, [](z_stream* s, bool) { return inflate(s, Z_NO_FLUSH); });
    if (status == Z_MEM_ERROR) no_memory();
    return status;
  }
  std::string_view rest() const { return rest_; }
  std::string problem() const { return stream_.msg ? stream_.msg : "it is damaged"; }
  void start_next_member() { inflateReset(&stream_); }

 private:
  z_stream stream_{};
  std::string_view rest_;
};

std::string packed(std::string_view content, int frame) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, frame, 9, Z_DEFAULT_STRATEGY) != Z_OK) no_memory();
  std::string out;
  int status = Z_OK;
  while (status == Z_OK)
    status =
        advance(stream, content, out, [](z_stream* s, bool last) { return deflate(s, last ? Z_FINISH : Z_NO_FLUSH); });
  deflateEnd(&stream);
  CARAVAN_CHECK(status == Z_STREAM_END, "deflate ended with " + std::to_string(status));
  return out;
}

// Unpacks until the end, or until there are more than `enough` bytes.
std::string unpacked(std::string_view content, const std::string& file, size_t enough) {
  auto refuse = [&](const std::string& problem) {
    throw ConfigError(fmt::format("`{}` is not a usable gzip file: {}; fetch it again.", file, problem));
  };
  if (!is_gzip(content)) refuse("it does not begin with the bytes 1f 8b");
  Inflater inflater(content, kGzip);
  std::string out;
  while (true) {
    const int status = inflater.next(out);
    if (out.size() > enough) return out;
    if (status == Z_BUF_ERROR)
      refuse(fmt::format("its {} bytes end in the middle, so it is truncated", content.size()));
    if (status != Z_OK && status != Z_STREAM_END) refuse(inflater.problem());
    if (status == Z_OK) continue;
    if (inflater.rest().empty()) return out;
    if (!is_gzip(inflater.rest())) refuse(fmt::format("{} bytes follow its end", inflater.rest().size()));
    inflater.start_next_member();
  }
}

}  // namespace

bool is_gzip(std::string_view content) { return content.starts_with("\x1f\x8b"); }

std::string gunzip(std::string_view content, const std::string& file, size_t most, const std::string& limit) {
  std::string out = unpacked(content, file, most);
  if (out.size() > most) throw ConfigError(fmt::format("`{}` unpacks to more than {} bytes, {}.", file, most, limit));
  return out;
}

std::string gunzip_start(std::string_view content, const std::string& file, size_t most) {
  return unpacked(content, file, most).substr(0, most);
}

std::string gzip(std::string_view content) { return packed(content, kGzip); }

std::string read_unpacked(const std::string& path) {
  std::string content = read_file(path);
  return is_gzip(content) ? gunzip(content, path, kLargestUnpacked) : content;
}

std::optional<std::string> inflated(std::string_view content, size_t size) {
  Inflater inflater(content, kRaw);
  std::string out;
  int status = Z_OK;
  while (status == Z_OK && out.size() <= size) status = inflater.next(out);
  if (status != Z_STREAM_END || out.size() != size || !inflater.rest().empty()) return std::nullopt;
  return out;
}

std::string deflated(std::string_view content) { return packed(content, kRaw); }

uint32_t crc32(std::string_view content) {
  return uint32_t(::crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
}

}  // namespace caravan::data
