// How long a thread of a processor looks for what it waits for before it sleeps. Meanwhile it takes a processor from
// others.
#pragma once

#include <chrono>

namespace caravan {

// How often an idle thread of the pool looks for work before it sleeps: some tens of microseconds, longer than the time
// between two parallel loops of a program. Chosen, not tuned.
inline constexpr int kPoolSpins = 20'000;

// How often a device of one process looks for the others of its mesh before it sleeps: some microseconds, if each has a
// processor. Chosen, not tuned.
inline constexpr int kMeetingSpins = 4'000;

// Of a process that waits for messages: how long it asks for them without pauses, longer if the device has nothing else
// to do (set_urgent), and how long a pause is. Chosen, not tuned.
inline constexpr std::chrono::microseconds kBusy{100}, kBusyIfUrgent{5'000}, kPause{20};

}  // namespace caravan
