// The C that every generated unit starts with: conversions and random bits.
#pragma once

namespace caravan::codegen {
extern const char* const kPrelude;
}
