// Processes that all have the same number, as those of containers mostly have.
#pragma once

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <vector>

// Runs `work` in so many processes at once, each of which is number 1 of a namespace of its own. Returns how many ended
// with the code 0, or -1 where the system does not allow such namespaces.
inline int succeed_with_equal_pids(int processes, const std::function<int(int)>& work) {
  constexpr int kNotAllowed = 77;
  std::vector<pid_t> outer;
  for (int p = 0; p < processes; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) _exit(kNotAllowed);
      const pid_t first = fork();
      if (first == 0) _exit(getpid() == 1 ? work(p) : kNotAllowed);
      int status = 0;
      if (first < 0 || waitpid(first, &status, 0) != first) _exit(kNotAllowed);
      _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    outer.push_back(child);
  }
  int good = 0;
  bool allowed = true;
  for (const pid_t child : outer) {
    int status = 0;
    allowed = child > 0 && waitpid(child, &status, 0) == child && allowed;
    allowed = !(WIFEXITED(status) && WEXITSTATUS(status) == kNotAllowed) && allowed;
    good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return allowed ? good : -1;
}
