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

// One call of inflate or deflate: takes from the front of `in`, puts at most `room` bytes at `out`, says how many.
template <class Step>
int advance(z_stream& stream, std::string_view& in, void* out, size_t room, size_t& put, Step step) {
  const size_t give = std::min(in.size(), kChunk);
  room = std::min(room, kChunk);
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(in.data()));
  stream.avail_in = uInt(give);
  stream.next_out = static_cast<Bytef*>(out);
  stream.avail_out = uInt(room);
  const int status = step(&stream, give == in.size());
  in.remove_prefix(give - stream.avail_in);
  put = room - stream.avail_out;
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
  int next(void* out, size_t room, size_t& put) {
    const int status =
        advance(stream_, rest_, out, room, put, [](z_stream* s, bool) { return inflate(s, Z_NO_FLUSH); });
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
  std::string out, piece(kChunk, '\0');
  int status = Z_OK;
  while (status == Z_OK) {
    size_t put = 0;
    status = advance(stream, content, piece.data(), piece.size(), put,
                     [](z_stream* s, bool last) { return deflate(s, last ? Z_FINISH : Z_NO_FLUSH); });
    out.append(piece, 0, put);
  }
  deflateEnd(&stream);
  CARAVAN_CHECK(status == Z_STREAM_END, "deflate ended with " + std::to_string(status));
  return out;
}

class GzipSource : public ByteSource {
 public:
  GzipSource(std::string_view content, const std::string& file)
      : file_(file), bytes_(content.size()), inflater_(content, kGzip) {
    if (!is_gzip(content)) refuse("it does not begin with the bytes 1f 8b");
  }

  size_t read(void* to, size_t n) override {
    size_t done = 0;
    while (done < n && !ended_) {
      size_t put = 0;
      const int status = inflater_.next(static_cast<char*>(to) + done, n - done, put);
      done += put;
      if (status == Z_BUF_ERROR) refuse(fmt::format("its {} bytes end in the middle, so it is truncated", bytes_));
      if (status != Z_OK && status != Z_STREAM_END) refuse(inflater_.problem());
      if (status == Z_STREAM_END) next_member();
    }
    return done;
  }
  uint64_t most() const override { return kBestDeflation * inflater_.rest().size() + kChunk; }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    throw ConfigError(fmt::format("`{}` is not a usable gzip file: {}; fetch it again.", file_, problem));
  }
  void next_member() {
    ended_ = inflater_.rest().empty();
    if (ended_) return;
    if (!is_gzip(inflater_.rest())) refuse(fmt::format("{} bytes follow its end", inflater_.rest().size()));
    inflater_.start_next_member();
  }

  const std::string file_;
  const size_t bytes_;
  Inflater inflater_;
  bool ended_ = false;
};

class DeflateSource : public ByteSource {
 public:
  DeflateSource(std::string_view content, uint64_t size, uint32_t crc, const std::string& problem)
      : inflater_(content, kRaw), left_(size), expected_(crc), problem_(problem) {}

  size_t read(void* to, size_t n) override {
    size_t done = 0;
    while (done < n && !ended_) {
      size_t put = 0;
      const int status = inflater_.next(static_cast<char*>(to) + done, n - done, put);
      crc_ = uint32_t(::crc32_z(crc_, static_cast<const Bytef*>(to) + done, put));
      done += put;
      if ((status != Z_OK && status != Z_STREAM_END) || put > left_) throw ConfigError(problem_);
      left_ -= put;
      ended_ = status == Z_STREAM_END;
      if (ended_ && (left_ > 0 || crc_ != expected_ || !inflater_.rest().empty())) throw ConfigError(problem_);
    }
    return done;
  }
  uint64_t most() const override { return left_; }

 private:
  Inflater inflater_;
  uint64_t left_;
  const uint32_t expected_;
  uint32_t crc_ = 0;
  const std::string problem_;
  bool ended_ = false;
};

// All, or the first bytes where there are more than `enough`. The text grows as it comes, since nothing says how long
// it will be.
std::string unpacked(std::string_view content, const std::string& file, size_t enough) {
  GzipSource source(content, file);
  std::string out;
  for (size_t got = kChunk; got == kChunk && out.size() <= enough;) {
    const size_t before = out.size();
    out.resize(before + kChunk);
    got = source.read(out.data() + before, kChunk);
    out.resize(before + got);
  }
  return out;
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

std::unique_ptr<ByteSource> gunzipping(std::string_view content, const std::string& file) {
  return std::make_unique<GzipSource>(content, file);
}

std::string read_unpacked(const std::string& path, const ReadLimits& limits) {
  return naming_memory(path, [&] {
    std::string content = read_file(path);
    if (!is_gzip(content)) return content;
    return gunzip(content, path, size_t(limits.unpacked), "the most that is read (ReadLimits raises it)");
  });
}

std::unique_ptr<ByteSource> inflating(std::string_view content, uint64_t size, uint32_t crc,
                                      const std::string& problem) {
  return std::make_unique<DeflateSource>(content, size, crc, problem);
}

std::string deflated(std::string_view content) { return packed(content, kRaw); }

uint32_t crc32(std::string_view content) {
  return uint32_t(::crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
}

}  // namespace caravan::data
