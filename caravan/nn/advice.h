// What to tell a user whose arguments do not fit a layer or a loss: what was given, what is taken, what to try. Each
// function is given the shapes of a call's arguments (CallRecord::Advice) and says nothing where they are not the
// fault.
#pragma once

#include "caravan/tensor/call.h"

namespace caravan::nn {

using Shapes = CallRecord::Shapes;

std::string in_words(const Shape& shape);  // "4 examples of 28 x 28 numbers"

std::string has_last_axis(const Shapes& shapes);        // ... | ..., c
std::string is_image(const Shapes& shapes);             // ... | h, w, c
std::string is_channels_in_time(const Shapes& shapes);  // ... | t, c
std::string is_any_sequence(const Shapes& shapes);      // ..., t | c
// A sequence of at most, or just, this length; `takes` is what the layer says about it.
std::string is_sequence(const Shapes& shapes, int64_t length, const std::string& takes);
std::string are_groups(const Shapes& shapes, int64_t groups);  // of the last axis, which they divide
// Queries, keys and values with heads: ..., t | h, d.
std::string have_heads(const Shapes& shapes);
// Two arguments of one shape.
std::string are_equal(const Shapes& shapes, const std::string& first, const std::string& second);
// Scores over classes, and ids or distributions.
std::string are_targets(const Shapes& shapes, const std::string& scores, DType targets);

}  // namespace caravan::nn
