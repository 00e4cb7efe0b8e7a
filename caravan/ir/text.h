// Numbers and bodies as text, shared by the printers of this folder.
#pragma once

#include <string>

namespace caravan::ir {

// The shortest text that reads back as the same number: "0.1", "-2", "1e+30", "inf", "nan".
std::string number_text(double value);

}  // namespace caravan::ir
