// What is assumed of the network between devices that are not here.
#pragma once

namespace caravan {

// Bytes a second that a device sends, and receives at the same time, and seconds of a message without bytes. Nothing
// was measured: they are round numbers near those of a network of 100 gigabits a second.
inline constexpr double kNetworkBandwidth = 10e9, kNetworkLatency = 10e-6;

}  // namespace caravan
