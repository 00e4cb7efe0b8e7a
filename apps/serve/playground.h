// Small models that clients train live: two coordinates in, one probability out. A session is a client's model, known
// by an id that the client made up; it trains only while the client asks, so a page that is closed costs nothing.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "apps/serve/digits.h"
#include "caravan/data/synthetic.h"
#include "caravan/runtime/context.h"

namespace caravan::serve {

struct PlaygroundSettings {
  std::string data = "moons";  // one of data_names()
  double noise = 0.1;
  std::string activation = "tanh";  // one of activation_names()
  int64_t width = 8, depth = 2;     // of the hidden layers
  double rate = 0.01;
  uint64_t seed = 1;  // of the points and the initial weights
};
std::vector<std::string> data_names();
std::vector<std::string> activation_names();

inline constexpr int64_t kFieldSide = 56;

struct PlaygroundView {
  int64_t steps = 0;                   // made so far
  double loss = 0, accuracy = 0;       // over all points
  double left = 0, top = 0, size = 0;  // the square that the field covers; top is the largest y
  std::vector<float> field;            // probability of the label 1, rows from the top, kFieldSide each
  data::LabelledPoints points;
};

// At most so many do something at once; some more may wait until it is their turn.
class Turns {
 public:
  Turns(size_t at_once, size_t waiting) : most_at_once_(at_once), most_waiting_(waiting) {}

  // Has a turn as long as it lives. The constructor waits for it; it throws NotReady where too many wait already, or
  // where `left` becomes true meanwhile: nobody wants what the turn is for any more.
  class Turn {
   public:
    Turn(Turns& turns, const std::atomic<bool>& left);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Turns& turns_;
  };

 private:
  const size_t most_at_once_, most_waiting_;
  std::mutex mutex_;
  std::condition_variable freed_;
  size_t at_once_ = 0, waiting_ = 0;
};

struct PlaygroundLimits {
  size_t sessions = 32;  // then the one that was idle longest goes
  size_t compiles = 2;   // at once
  size_t waiting = 8;    // for one of these; who comes then is told to ask again
};

class Playground {
 public:
  explicit Playground(ContextOptions options, const PlaygroundLimits& limits = {});
  ~Playground();

  // Makes the session what the settings say, trains up to `steps` steps of it (fewer where they take more than a
  // moment) and looks. Another rate, noise or data set keeps the weights; another seed, width, depth or activation, or
  // `reset`, starts anew. NotReady where too many wait for a model to be compiled, or where `left` becomes true before
  // this one's turn: a model that nobody waits for is not compiled.
  PlaygroundView advance(const std::string& session, const PlaygroundSettings& settings, int64_t steps, bool reset,
                         const std::atomic<bool>& left = false);
  size_t sessions() const;

 private:
  struct Session;
  std::shared_ptr<Session> find(const std::string& id);

  const ContextOptions options_;
  const size_t most_sessions_;
  Turns compiles_;
  mutable std::mutex mutex_;  // of the map; a session has its own
  std::map<std::string, std::shared_ptr<Session>> sessions_;
  int64_t clock_ = 0;
};

}  // namespace caravan::serve
