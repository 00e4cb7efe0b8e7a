// mutate [ROUNDS [NUMBER]]: damages the seeds of a fuzzer in ROUNDS ways, and runs it on each. The ways are the same
// every time; another NUMBER gives others. mutate --seeds DIR: writes them into a folder, for libFuzzer to begin with.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>

#include "fuzz.h"

namespace {

std::string damaged(std::string input, const std::vector<std::string>& all, std::mt19937& random) {
  auto at = [&] { return input.empty() ? 0 : random() % input.size(); };
  for (int changes = 1 + int(random() % 4); changes > 0; --changes) {
    const std::string& other = all[random() % all.size()];
    switch (random() % 6) {
      case 0: input.resize(at()); break;
      case 1: input.insert(at(), std::string(1 + random() % 9, char(random()))); break;
      case 2: input.erase(at(), 1 + random() % 9); break;
      case 3: input.insert(at(), other.substr(other.empty() ? 0 : random() % other.size(), random() % 20)); break;
      case 4:
        if (!input.empty()) input[at()] = char(random());
        break;
      case 5:
        if (!input.empty()) {
          char& byte = input[at()];
          byte = char(byte ^ (1 << random() % 8));
        }
        break;
    }
  }
  return input;
}

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> all = seeds();
  if (argc == 3 && std::string(argv[1]) == "--seeds") {
    for (size_t i = 0; i < all.size(); ++i) {
      std::ofstream file(std::string(argv[2]) + "/seed" + std::to_string(i), std::ios::binary);
      if (!(file << all[i]).flush()) return 1;
    }
    return 0;
  }
  std::mt19937 random(argc > 2 ? uint32_t(std::atoi(argv[2])) : 1);
  run("");
  for (const std::string& seed : all) run(seed);
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 500;
  for (int i = 0; i < rounds; ++i) run(damaged(all[random() % all.size()], all, random));
  std::printf("%zu seeds, %d damaged ones\n", all.size(), rounds);
}
