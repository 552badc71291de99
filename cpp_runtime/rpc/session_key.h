// The key that restricts an RPC server to those who started it.
//
//   options.key = random_key();  // sent to the client by other means, such as SSH
#pragma once

#include <string>

namespace edgepipe::rpc {

/// 32 hex digits, 128 random bits of the system's source.
std::string random_key();

}  // namespace edgepipe::rpc
