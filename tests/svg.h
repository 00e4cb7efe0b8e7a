// What tests ask of an SVG: is it well formed, and where do things lie?
#pragma once

#include <string>
#include <vector>

#include "contains.h"

namespace caravan::plot {

using std::string;

size_t count(const string& text, const string& phrase);  // how often the phrase is in the text

// Every tag is closed in order, attributes are quoted, no bare & or <, one root. Empty when so, else what is wrong.
string mistake(const string& whole);

// The numbers of an attribute of every element of one kind.
std::vector<double> numbers(const string& whole, const string& element, const string& attribute);

}  // namespace caravan::plot
