// SHA-256 (FIPS 180-4), by which a data set that was fetched is known to be the one that was meant.
#pragma once

#include <string>
#include <string_view>

namespace caravan::data {

std::string sha256(std::string_view content);  // 64 hexadecimal digits

}  // namespace caravan::data
