// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace caravan::app {

std::string figure(double value);      // four digits: 0.01234, 1.5e-07, 1,489; "not a number", "infinite"
std::string speed(double per_second);  // three digits: "336,000", "88.1"
std::string percent(double part);      // 0.9712 is "97.12 %"; "100 %" is said of all alone
std::string duration(double seconds);  // "71 µs", "0.021 s", "3.4 s", "1 min 12 s", "2 h 5 min"
std::string megabytes(int64_t bytes);  // "1.5 MB"
std::string counted(int64_t count, const std::string& one, const std::string& many);  // "1 step", "6,400 steps"

}  // namespace caravan::app
