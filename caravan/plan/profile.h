// Where the time of a step goes: the measured time of each kernel of a plan, its estimated cost, and the least time
// that the machine needs for that.
//
//     auto profile = routine.profile({.first = {{batch, 0}}});
//     std::cout << profile;                         // a table, the slowest kernel first
//     write_file("profile.svg", plot::svg(profile));
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "caravan/plan/kernel_cost.h"
#include "caravan/target/peaks.h"

namespace caravan::plan {

struct Plan;

// One kernel of a step.
struct KernelProfile {
  size_t number = 0;                 // of the kernel, in the order in which kernels run
  std::string name;                  // of the accumulation in it that computes most
  double microseconds = 0;           // time in one step
  double share = 0;                  // of the time of all kernels, 0 to 1
  KernelCost cost;                   // operations and bytes, estimated from its loops
  double least_microseconds = 0;     // the least time that this machine needs for the cost; 0 if not known
  std::string loops;                 // "b0 10 parallel (o0 16 vector (i0 2))"
  std::vector<std::string> tiles;    // of products: "8 x 48 of 1024 rows, 384 columns, 256 terms"
  std::vector<std::string> from;     // its accumulations, with the lines of the user's program that they come from
  std::vector<std::string> origins;  // what the user wrote, each once: "w1(x), moons.cpp:16"
  double gflops() const;             // 1e9 operations a second
  double gigabytes() const;          // 1e9 bytes a second, read and written
  double of_peak() const;            // least_microseconds / microseconds
};

// All kernels of a step.
struct Profile {
  std::string program;                 // its name
  std::string target;                  // the machine, in a line
  int64_t steps = 0;                   // that were measured
  double step_microseconds = 0;        // time of a step without reading the clock between its kernels
  double kernel_microseconds = 0;      // the sum of the kernels' times
  double exchange_microseconds = 0;    // of a device's collectives in a step; 0: there are none
  double hidden_exchange = 0;          // the share of that time in which a device had kernels to run, 0 to 1
  int64_t exchanged_bytes = 0;         // that a device sends in a step
  Peaks peaks;                         // what the machine can do at best
  std::vector<KernelProfile> kernels;  // the slowest first
};

// From the nanoseconds that each kernel of the plan took in one step.
Profile make_profile(const Plan& plan, const std::vector<double>& nanoseconds, const Peaks& peaks);

// As a table of the slowest kernels; 0: of all.
std::string to_string(const Profile& profile, size_t most = 0);
std::ostream& operator<<(std::ostream& out, const Profile& profile);  // the table

std::string microseconds_text(double microseconds);  // with the digits that matter: "0.596", "8619"

}  // namespace caravan::plan
