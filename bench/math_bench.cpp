// Nanoseconds an element of the elementary functions of generated kernels, on arrays that stay in the first cache.
//   g++ -std=c++20 -O2 bench/math_bench.cpp -o /tmp/math_bench
//   /tmp/math_bench [compiler and flags]      (in the root of the repository)
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace {

// The processor's time of this thread: what others run meanwhile does not count.
double now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) * 1e9 + double(t.tv_nsec);
}

struct Function {
  const char* name;
  double low, high;
  bool binary = false;
};
const Function kFunctions[] = {{"exp", -10, 10},     {"exp2", -10, 10},  {"expm1", -5, 5}, {"log", 0.01, 100},
                               {"log2", 0.01, 100},  {"log1p", -0.9, 9}, {"sin", -20, 20}, {"cos", -20, 20},
                               {"tan", -20, 20},     {"tanh", -4, 4},    {"erf", -3, 3},   {"atan2", 0.1, 9, true},
                               {"pow", 0.1, 9, true}};

template <class T>
void measure(void* library, const Function& function, const char* suffix) {
  using Loop = void (*)(T*, const T*, const T*, long);
  auto loop = reinterpret_cast<Loop>(dlsym(library, (std::string(function.name) + suffix).c_str()));
  constexpr long n = 1024, repeats = 200, rounds = 101;
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform(function.low, function.high);
  std::vector<T> a(n), b(n), out(n);
  for (long i = 0; i < n; ++i) a[size_t(i)] = T(uniform(random)), b[size_t(i)] = T(uniform(random));
  std::vector<double> times;
  for (long round = 0; round < rounds; ++round) {
    double start = now();
    for (long i = 0; i < repeats; ++i) loop(out.data(), a.data(), b.data(), n);
    times.push_back((now() - start) / double(repeats * n));
  }
  std::sort(times.begin(), times.end());
  std::printf("  %6.3f (%.3f)", times[times.size() / 2], times[0]);
}

}  // namespace

int main(int argc, char** argv) {
  std::string command = "cc -O3 -march=native -ffp-contract=off -fno-math-errno -fno-trapping-math -fwrapv";
  if (argc > 1) command = argv[1];
  for (int i = 2; i < argc; ++i) command += std::string(" ") + argv[i];
  std::string folder = (std::filesystem::temp_directory_path() / "caravan_math_XXXXXX").string();
  if (!mkdtemp(folder.data())) return 1;
  {
    std::ofstream file(folder + "/math.c");
    file << "#include \"caravan/codegen/prelude/math.h\"\n";
    for (const Function& f : kFunctions)
      for (std::string type : {"float", "double"}) {
        std::string name = f.name + std::string(type == "float" ? "_f32" : "_f64");
        file << "void " << name << "(" << type << "* restrict out, const " << type << "* restrict a, const " << type
             << "* restrict b, long n) { for (long i = 0; i < n; ++i) out[i] = caravan_" << name
             << (f.binary ? "(a[i], b[i]); }\n" : "(a[i]); }\n");
      }
  }
  command += " -I. -std=c99 -shared -fPIC " + folder + "/math.c -o " + folder + "/math.so -lm";
  std::printf("%s\nns an element: median (least)   f32              f64\n", command.c_str());
  if (std::system(command.c_str()) != 0) return 1;
  void* library = dlopen((folder + "/math.so").c_str(), RTLD_NOW);
  std::filesystem::remove_all(folder);
  if (!library) return 1;
  for (const Function& f : kFunctions) {
    std::printf("%-24s", f.name);
    measure<float>(library, f, "_f32");
    measure<double>(library, f, "_f64");
    std::printf("\n");
  }
}
