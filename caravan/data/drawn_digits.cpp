// Digits as a pen might write them. A digit is strokes through a few points; every image moves the points a little,
// joins them smoothly, slants and bends the whole, and inks it with a round pen of its own width.
//
// Only + - * / and square roots are used, so the bits depend on no library.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "caravan/base/error.h"
#include "caravan/base/random.h"
#include "caravan/data/digits.h"

namespace caravan::data {

namespace {

constexpr int kDrawnSide = 28,
              kBox = 20;  // MNIST: the ink fits a box of 20×20, its centre of mass is the image's centre

struct Glyph {
  int digit;
  int weight;        // how many of a hundred of this digit are written so
  const char* path;  // points "x,y" in a box of 100×100, y down; `!` is a corner; `/` lifts the pen
};
constexpr Glyph kGlyphs[] = {
    {0, 50, "55,2 25,15 12,50 25,88 52,98 80,85 90,50 78,14 50,2"},
    {0, 30, "70,12 45,2 20,22 10,60 28,95 60,95 86,68 88,30 66,6 48,8"},
    {0, 20, "40,4 15,30 12,72 38,98 72,88 88,50 74,12 42,2 28,14"},
    {1, 55, "52,0 51,35 50,65 49,100"},
    {1, 15, "60,0 52,35 46,70 40,100"},
    {1, 20, "32,22 44,12 54,0! 53,35 52,70 51,100"},
    {1, 10, "30,24 44,12 54,0! 53,50 52,100 / 28,100 52,99 76,100"},
    {2, 25, "14,24 28,6 54,0 78,12 80,34 62,60 36,82 12,98! 40,97 66,96 92,97"},
    {2, 20, "18,20 36,3 64,4 80,22 72,46 46,70 14,97! 50,93 90,96"},
    {2, 20, "16,22 34,4 60,2 78,18 74,44 52,70 28,90 12,92 12,78 28,74 50,86 72,97 94,90"},
    {2, 10, "20,14 48,2 74,12 74,36 52,62 22,86 10,96 24,88 46,92 70,98 92,90"},
    {2, 25, "24,20 42,6 60,8 60,30 38,60 8,84 2,92 14,80 40,82 68,90 100,80"},
    {3, 45, "18,14 40,1 68,6 76,24 62,42 38,48! 66,52 82,70 72,92 42,100 14,88"},
    {3, 30, "14,10 44,0 74,10 74,30 52,44 40,48 60,50 84,64 82,86 54,100 20,96 8,84"},
    {3, 15, "16,6 48,4 80,4! 62,22 42,42! 68,46 84,66 74,92 44,100 14,90"},
    {3, 10, "20,16 46,2 70,14 64,36 44,46 34,42 44,42 70,52 80,74 62,96 30,98 12,84"},
    {4, 50, "26,4 22,28 16,52! 44,54 70,52 92,48 / 74,2 72,35 68,70 66,100"},
    {4, 10, "20,6 16,30 20,50 44,54 64,46 76,30 / 82,0 78,30 72,65 68,100"},
    {4, 25, "66,2 40,32 10,64! 40,64 68,63 94,62 / 68,0 67,40 66,70 65,100"},
    {4, 15, "62,0 38,30 12,60! 50,62 92,58 / 70,34 66,68 62,100"},
    {5, 25, "30,4 26,24 22,44! 48,36 76,46 84,70 68,94 40,100 14,90 / 30,4 54,5 82,2"},
    {5, 20, "84,4 56,4 30,6! 26,26 22,44! 46,38 74,46 82,70 66,94 38,100 12,90"},
    {5, 15, "82,6 52,6 34,14 28,34 44,44 66,52 78,70 68,90 44,100 18,94"},
    {5, 25, "42,10 36,28 30,46! 52,44 64,58 58,80 34,98 8,92 / 42,8 66,7 100,0"},
    {5, 15, "96,2 66,8 44,10! 38,28 30,44! 54,48 62,64 50,86 24,98 4,90"},
    {6, 40, "66,0 42,18 22,48 16,78 32,98 60,98 80,82 74,60 50,54 28,66 18,82"},
    {6, 35, "46,0 28,28 18,60 22,88 46,100 72,90 80,70 66,54 42,56 24,72"},
    {6, 25, "78,6 54,6 30,28 16,60 24,92 52,100 76,84 72,62 48,56 24,72"},
    {7, 45, "12,10 40,8 66,6 88,5! 74,32 58,64 48,100"},
    {7, 20, "14,24 16,8! 48,7 86,5! 70,36 54,66 44,100"},
    {7, 15, "10,8 36,10 64,8 86,8 80,28 66,58 58,100"},
    {7, 20, "12,10 48,8 86,6! 72,36 56,68 46,100 / 34,52 56,50 82,50"},
    {8, 25, "72,14 48,0 24,14 32,36 54,50 76,70 68,94 44,100 22,88 28,66 50,48 72,30 74,14"},
    {8, 15, "66,8 40,4 24,22 40,42 66,58 80,80 58,100 26,96 20,76 42,56 70,34 76,14 62,4"},
    {8, 20, "50,0 28,10 28,36 50,46 72,36 74,12 50,0 / 50,46 24,60 20,86 48,100 78,88 76,60 52,46"},
    {8, 25, "70,12 48,0 32,12 36,32 50,48 60,68 54,92 40,100 30,88 36,66 54,46 70,26 78,8"},
    {8, 15, "80,10 56,2 34,14 38,34 54,48 58,70 46,94 30,98 24,82 40,60 66,38 84,16"},
    {9, 20, "76,18 52,2 24,14 18,38 40,50 64,42 76,18! 74,50 70,76 66,100"},
    {9, 20, "78,12 54,0 26,12 18,34 36,50 62,44 78,20! 78,52 70,82 44,100 20,94"},
    {9, 20, "74,24 66,4 38,4 20,24 26,46 50,48 70,32 76,12 76,40 68,72 58,100"},
    {9, 25, "72,12 50,2 30,14 28,34 46,40 64,26 72,10! 66,42 56,72 48,100"},
    {9, 15, "80,6 54,4 30,20 30,40 50,40 72,18! 70,44 64,72 60,100"},
};
static_assert([] {  // the ways to write a digit are all of its hundred
  int sum[10] = {};
  for (const Glyph& glyph : kGlyphs) sum[glyph.digit] += glyph.weight;
  for (const int weight : sum)
    if (weight != 100) return false;
  return true;
}());

struct Point {
  double x = 0, y = 0;
};
Point operator+(Point a, Point b) { return {a.x + b.x, a.y + b.y}; }
Point operator-(Point a, Point b) { return {a.x - b.x, a.y - b.y}; }
Point operator*(double s, Point a) { return {s * a.x, s * a.y}; }

struct Knot {
  Point at;
  bool corner;  // the curve before and the curve after it know nothing of each other; so at both ends of a stroke
};
using Stroke = std::vector<Knot>;
struct Shapes {
  int weight;
  std::vector<Stroke> strokes;
};

std::vector<Stroke> parse(const char* path) {
  std::vector<Stroke> out(1);
  std::istringstream words(path);
  for (std::string word; words >> word;) {
    if (word == "/") {
      out.emplace_back();
      continue;
    }
    int x = 0, y = 0;
    const char* end = word.data() + word.size();
    const char* comma = std::from_chars(word.data(), end, x).ptr;  // in whatever locale the program is
    std::from_chars(comma + 1, end, y);
    out.back().push_back({{x / 100.0, y / 100.0}, word.back() == '!'});
  }
  for (Stroke& stroke : out) stroke.front().corner = stroke.back().corner = true;
  return out;
}

std::vector<std::vector<Shapes>> parse_all() {
  std::vector<std::vector<Shapes>> out(10);
  for (const Glyph& glyph : kGlyphs) out[size_t(glyph.digit)].push_back({glyph.weight, parse(glyph.path)});
  return out;
}

// The random numbers of one image.
class Draws {
 public:
  Draws(uint64_t seed, uint64_t stream, uint64_t image) : seed_(seed), stream_(stream), image_(image) {}
  uint32_t word() {
    if (used_ % 4 == 0) words_ = random_words(seed_, stream_, used_ / 4, image_);
    return words_[used_++ % 4];
  }
  double uniform(double low, double high) { return low + (high - low) * unit_uniform(word()); }
  // A bell of deviation 1 that ends at ±3: the sum of four uniform numbers.
  double bell() {
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += unit_uniform(word());
    return (sum - 2) * 1.7320508075688772;
  }

 private:
  uint64_t seed_, stream_, image_, used_ = 0;
  Word4 words_{};
};

const std::vector<Stroke>& choose(const std::vector<Shapes>& ways, Draws& draws) {
  int at = int(draws.word() % 100);
  for (const Shapes& way : ways)
    if ((at -= way.weight) < 0) return way.strokes;
  return ways.back().strokes;
}

using Polyline = std::vector<Point>;

// Appends the curve through all knots, in a few straight pieces for each: Catmull and Rom's spline, whose tangent at a
// knot is half the way from the one before to the one after, or, at a corner, towards the neighbour.
void append_curve(const Stroke& stroke, std::vector<Polyline>& out) {
  constexpr int kPieces = 4;
  Polyline& line = out.emplace_back();
  line.push_back(stroke[0].at);
  for (size_t i = 0; i + 1 < stroke.size(); ++i) {
    const Point p = stroke[i].at, q = stroke[i + 1].at;
    const Point from = stroke[i].corner ? q - p : 0.5 * (q - stroke[i - 1].at);
    const Point to = stroke[i + 1].corner ? q - p : 0.5 * (stroke[i + 2].at - p);
    for (int k = 1; k <= kPieces; ++k) {
      const double t = double(k) / kPieces, t2 = t * t, t3 = t2 * t;
      line.push_back((2 * t3 - 3 * t2 + 1) * p + (t3 - 2 * t2 + t) * from + (3 * t2 - 2 * t3) * q + (t3 - t2) * to);
    }
  }
}

// What one hand did to the whole digit: a bend, a slant, a turn, a width.
class Distortion {
 public:
  explicit Distortion(Draws& draws)
      : width_(draws.uniform(0.5, 1.25)),
        slant_(0.2 + 0.25 * draws.bell()),
        bend_x_(0.12 * draws.bell()),
        bend_y_(0.10 * draws.bell()) {
    const double t = 0.055 * draws.bell();  // tan of half the angle
    cosine_ = (1 - t * t) / (1 + t * t), sine_ = 2 * t / (1 + t * t);
  }
  Point operator()(Point p) const {
    const double x = p.x - 0.5, y = p.y - 0.5;
    const double bent_x = width_ * (x + bend_x_ * (4 * y * y - 0.5)) - slant_ * y, bent_y = y + bend_y_ * x * (1 + x);
    return {cosine_ * bent_x - sine_ * bent_y, sine_ * bent_x + cosine_ * bent_y};
  }

 private:
  double width_, slant_, bend_x_, bend_y_, cosine_ = 1, sine_ = 0;
};

// Scales the lines so that their ink, `radius` around them, fills the box, in the middle of the image.
void fit(std::vector<Polyline>& lines, double radius) {
  Point low = lines[0][0], high = low;
  for (const Polyline& line : lines)
    for (const Point p : line) {
      low = {std::min(low.x, p.x), std::min(low.y, p.y)};
      high = {std::max(high.x, p.x), std::max(high.y, p.y)};
    }
  const double scale = (kBox - 2 * radius) / std::max(high.x - low.x, high.y - low.y);
  const Point middle = 0.5 * (low + high), centre{kDrawnSide / 2.0, kDrawnSide / 2.0};
  for (Polyline& line : lines)
    for (Point& p : line) p = centre + scale * (p - middle);
}

using Image = std::array<uint8_t, kDrawnSide * kDrawnSide>;

// A pixel is black within the radius of a line, and pales over the width of a pixel at its border.
Image inked(const std::vector<Polyline>& lines, double radius, double darkness) {
  std::array<double, kDrawnSide * kDrawnSide> ink{};
  const double reach = radius + 0.6;
  for (const Polyline& line : lines)
    for (size_t i = 0; i + 1 < line.size(); ++i) {
      const Point p = line[i], d = line[i + 1] - p;
      const double length2 = d.x * d.x + d.y * d.y;
      auto first = [&](double a, double b) { return std::max(0, int(std::min(a, b) - reach)); };
      auto last = [&](double a, double b) { return std::min(kDrawnSide - 1, int(std::max(a, b) + reach)); };
      const int left = first(p.x, p.x + d.x), right = last(p.x, p.x + d.x);
      for (int row = first(p.y, p.y + d.y); row <= last(p.y, p.y + d.y); ++row)
        for (int column = left; column <= right; ++column) {
          const Point c = Point{column + 0.5, row + 0.5} - p;
          const double along = length2 > 0 ? std::clamp((c.x * d.x + c.y * d.y) / length2, 0.0, 1.0) : 0;
          const Point off = c - along * d;
          const double depth = reach - std::sqrt(off.x * off.x + off.y * off.y);
          double& pixel = ink[size_t(row * kDrawnSide + column)];
          pixel = std::max(pixel, std::min(1.0, depth / 1.2));
        }
    }
  Image out;
  for (size_t i = 0; i < out.size(); ++i) out[i] = uint8_t(std::min(255.0, 255 * darkness * ink[i] + 0.5));
  return out;
}

// Moves the image by whole pixels so that its centre of mass is in the middle; the ink never leaves it.
Image centred(const Image& image) {
  int64_t mass = 0, x = 0, y = 0;
  int left = kDrawnSide, right = -1, top = kDrawnSide, bottom = -1;
  for (int row = 0; row < kDrawnSide; ++row)
    for (int column = 0; column < kDrawnSide; ++column) {
      const int ink = image[size_t(row * kDrawnSide + column)];
      if (ink == 0) continue;
      mass += ink, x += ink * column, y += ink * row;
      left = std::min(left, column), right = std::max(right, column);
      top = std::min(top, row), bottom = std::max(bottom, row);
    }
  auto shift = [&](int64_t moment, int low, int high) {
    const double off = (kDrawnSide - 1) / 2.0 - double(moment) / double(mass);
    return std::clamp(int(std::floor(off + 0.5)), -low, kDrawnSide - 1 - high);
  };
  const int dx = shift(x, left, right), dy = shift(y, top, bottom);
  Image out{};
  for (int row = top; row <= bottom; ++row)
    std::memcpy(&out[size_t((row + dy) * kDrawnSide + left + dx)], &image[size_t(row * kDrawnSide + left)],
                size_t(right - left + 1));
  return out;
}

Image draw(const std::vector<Shapes>& ways, Draws& draws) {
  const std::vector<Stroke>& written = choose(ways, draws);
  const Distortion distortion(draws);
  const double wobble = draws.uniform(0.02, 0.06), radius = draws.uniform(0.75, 1.9);
  const double darkness = draws.uniform(1.0, 1.25);
  std::vector<Polyline> lines;
  for (Stroke stroke : written) {
    for (Knot& knot : stroke) {
      const double dx = wobble * draws.bell(), dy = wobble * draws.bell();
      knot.at = distortion(knot.at + Point{dx, dy});
    }
    append_curve(stroke, lines);
  }
  fit(lines, radius);
  return centred(inked(lines, radius, darkness));
}

LabelledImages drawn(int64_t n, uint64_t seed, const char* stream) {
  static const std::vector<std::vector<Shapes>> kShapes = parse_all();
  Shape images, labels;
  images.batch = labels.batch = {{n}};
  images.output = {{kDrawnSide}, {kDrawnSide}, {1}};
  LabelledImages out{Array(images, DType::u8), Array(labels, DType::u8)};
  auto* pixels = static_cast<uint8_t*>(out.images.mutable_data());
  auto* classes = static_cast<uint8_t*>(out.labels.mutable_data());
  const uint64_t key = hash_name(stream);
  for (int64_t i = 0; i < n; ++i) {
    Draws draws(seed, key, uint64_t(i));
    classes[i] = uint8_t(draws.word() % 10);
    const Image image = draw(kShapes[classes[i]], draws);
    std::memcpy(pixels + i * kDrawnSide * kDrawnSide, image.data(), image.size());
  }
  return out;
}

}  // namespace

Digits drawn_digits(int64_t train, int64_t test, uint64_t seed, Source where) {
  const WrittenAt at(where);
  if (train < 1 || test < 1)
    throw ConfigError("drawn_digits: " + std::to_string(train) + " and " + std::to_string(test) +
                      " images; give a positive number of each.");
  return {drawn(train, seed, "digits.train"), drawn(test, seed, "digits.test"), kDrawn, true};
}

}  // namespace caravan::data
