// The command as a user meets it: arguments in, text, JSON and an exit code out.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "contains.h"

using std::string;
using Arguments = std::vector<string>;

struct Outcome {
  int code = -1;
  string out, err;
  string last_line() const;
};

string content(const string& path);
bool exists(const string& path);
string new_folder();

// Runs the command in an empty folder, with no CARAVAN_* but the cache that the tests of this build share.
class Command : public testing::Test {
 protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite();
  void SetUp() override;
  void TearDown() override;

  // With variables of its own: "CARAVAN_SEED=3".
  Outcome run(Arguments arguments, const Arguments& environment = {}) const;
  Outcome good(const Arguments& arguments) const;  // a run that must succeed
  Outcome run_program(const Arguments& arguments, const Arguments& environment = {}) const;
  pid_t start(const Arguments& arguments, const Arguments& environment = {}) const;
  Outcome ended(pid_t child) const;

  string folder_;                         // of a test
  static inline string scratch_, cache_;  // of all tests of a program; of kernels
};

// Until the process runs this program and no longer the shell that begins it.
void wait_until_runs(pid_t process, const string& program);
// Until the process has a handler for the signal, however long its compiler takes.
void wait_until_caught(pid_t process, int signal);

// The value of a key in a line of JSON, as it is written there.
string field(const string& json, const string& key);
double number(const string& json, const string& key);

string joined(const Arguments& arguments);
