#pragma once

/* Keeps the next loop from being unrolled: GCC before 14 may sum wrongly what it unrolls (its bug 110381). */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 8 && __GNUC__ < 14
#define caravan_keep_loop() _Pragma("GCC unroll 1")
#else
#define caravan_keep_loop()
#endif
