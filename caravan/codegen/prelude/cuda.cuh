#pragma once

typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define INT64_MIN (-9223372036854775807LL - 1)
#define INT64_MAX 9223372036854775807LL
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)

/* Waits for the other lanes of the group. A group of more than a warp has a barrier of its own; number 0 is the block's. */
template <int lanes, bool spread>
static inline void caravan_wait() {
  if constexpr (spread)
    __syncthreads();
  else if constexpr (lanes <= 32)
    __syncwarp(lanes == 32 ? ~0u : ((1u << lanes) - 1) << (threadIdx.x & 31 & ~(lanes - 1)));
  else
    asm volatile("bar.sync %0, %1;" ::"r"(1 + int(threadIdx.x) / lanes), "n"(lanes) : "memory");
}

/* The threads of a block. If one block runs all kernels, the compiler knows how many it has. */
static inline int caravan_threads() {
#ifdef CARAVAN_ONE_BLOCK
  return CARAVAN_ONE_BLOCK;
#else
  return int(blockDim.x);
#endif
}

/* The number of this thread among those of a kernel, of which this is block number `block`. If one block runs all
   kernels, it is the thread that begins with a kernel: so small kernels run side by side. */
template <class Index>
static inline Index caravan_thread(int block) {
#ifdef CARAVAN_ONE_BLOCK
  return (int(threadIdx.x) - block) & (caravan_threads() - 1);
#else
  return Index(block) * Index(caravan_threads()) + Index(threadIdx.x);
#endif
}

/* Lets the next kernel start its blocks, and waits for the end of the kernels before this one. */
static inline void caravan_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\ngriddepcontrol.wait;" ::: "memory");
#endif
}

/* Shared memory of a block: all kernels that a block runs take turns with it. */
extern __shared__ __align__(1024) char caravan_memory[];
static inline void* caravan_shared() { return caravan_memory; }

/* The values of all lanes of a group, combined; every lane gets the same. The order of combining is fixed: neighbours
   first, then neighbouring pairs, and so on, however many threads the block has. */
template <int lanes, bool spread, class T, class Combine>
static inline T caravan_across(T x, Combine combine) {
  T* slots = (T*)caravan_shared();
  if (spread) {
    const int thread = threadIdx.x, threads = caravan_threads(), groups = threads / lanes, group = thread % groups;
    int apart = groups; /* threads from one value that is not combined yet to the next */
    for (; apart < 32; apart *= 2) x = combine(x, __shfl_xor_sync(~0u, x, apart));
    slots[thread] = x;
    for (; 8 * apart < threads; apart *= 2) {
      __syncthreads();
      if (thread % (2 * apart) < apart) slots[thread] = combine(slots[thread], slots[thread + apart]);
    }
    __syncthreads();
    T last[8]; /* at most so many are left */
#pragma unroll
    for (int k = 0; k < 8; ++k) last[k] = slots[group + (k * apart < threads ? k * apart : 0)];
#pragma unroll
    for (int step = 1; step < 8; step *= 2)
#pragma unroll
      for (int k = 0; k < 8; k += 2 * step)
        if (step * apart < threads) last[k] = combine(last[k], last[k + step]);
    __syncthreads();
    return last[0];
  }
  const unsigned within = lanes >= 32 ? ~0u : ((1u << (lanes & 31)) - 1) << (threadIdx.x & 31 & ~(lanes - 1));
  for (int step = 1; step < (lanes < 32 ? lanes : 32); step *= 2) x = combine(x, __shfl_xor_sync(within, x, step));
  if constexpr (lanes > 32) {
    if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = x;
    caravan_wait<lanes, spread>();
    const int first = int(threadIdx.x) / lanes * (lanes / 32);
    x = slots[first + threadIdx.x % 32 % (lanes / 32)];
    for (int step = 1; step < lanes / 32; step *= 2) x = combine(x, __shfl_xor_sync(~0u, x, step));
    caravan_wait<lanes, spread>();
  }
  return x;
}

/* Neighbours in memory, which a thread loads and stores together, up to 16 bytes at a time. They begin at a multiple of
   their size. */
template <class T, int n>
struct __align__(n * sizeof(T) < 16 ? n * sizeof(T) : 16) caravan_neighbours {
  T all[n];
};
template <class T, int n>
static inline void caravan_move(void* to, const void* from) {
  constexpr int bytes = n * sizeof(T);
  if constexpr (bytes >= 16) {
#pragma unroll
    for (int k = 0; k < bytes / 16; ++k) ((uint4*)to)[k] = ((const uint4*)from)[k];
  } else if constexpr (bytes == 8) {
    *(uint2*)to = *(const uint2*)from;
  } else if constexpr (bytes == 4) {
    *(uint32_t*)to = *(const uint32_t*)from;
  } else {
    *(uint16_t*)to = *(const uint16_t*)from;
  }
}
template <int n, class T>
static inline caravan_neighbours<T, n> caravan_load(const T* from) {
  caravan_neighbours<T, n> out;
  caravan_move<T, n>(&out, from);
  return out;
}
template <int n, class T>
static inline void caravan_store(T* to, const caravan_neighbours<T, n>& from) {
  caravan_move<T, n>(to, &from);
}
