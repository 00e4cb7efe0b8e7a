// Work in parallel on threads that live as long as the call.
#pragma once

#include <cstdint>
#include <functional>

namespace caravan {

// Calls work(0), .., work(count - 1), each once and begun in this order, on at most `threads` threads; this thread is
// one of them. If the system gives fewer threads, those do the work. Once a call has thrown, no other is begun, and the
// exception is thrown when all threads have ended.
void in_parallel(int64_t count, int threads, const std::function<void(int64_t)>& work);

}  // namespace caravan
