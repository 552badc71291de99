// The keys that keep an RPC server to those who started it.
//
//   options.key = random_key();               // told to the client by a way of its own, such as
//   SSH if (!equal_keys(found, expected)) ...     // takes as long wherever the keys differ
#pragma once

#include <string>
#include <string_view>

namespace edgepipe::rpc {

/// 32 hex digits, 128 random bits of the system's source.
std::string random_key();

/// Whether two keys are equal. The time taken depends on their lengths alone.
bool equal_keys(std::string_view one, std::string_view other);

}  // namespace edgepipe::rpc
