// The devices of a mesh, and the engines by which they exchange values.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "caravan/backend/backend.h"
#include "caravan/backend/exchange.h"
#include "caravan/runtime/context.h"

namespace caravan {

// How the devices of a mesh exchange values (Mesh::engine): the name of each engine, and what was found of it, in words
// without a full stop. `auto`, which takes one of them, is not in it.
std::vector<std::pair<std::string, std::string>> engines();
std::vector<std::string> engine_names();  // what Mesh::engine may be: `auto` first

using ExchangeRef = std::shared_ptr<backend::Exchange>;  // null if the device is not one of a mesh
// Makes the one device that the options name.
using MakeOne = std::unique_ptr<backend::Device> (*)(const ContextOptions& options, ExchangeRef exchange);

// The names of the devices of the mesh of the options that belong to this process. ConfigError: the mesh cannot be had
// here, as far as that is known before processes have met.
std::vector<std::string> devices_of_process(const ContextOptions& options);
// These devices as one device. ConfigError: the mesh cannot be had here.
std::unique_ptr<backend::Device> make_mesh(const ContextOptions& options, MakeOne make_one);

}  // namespace caravan
