// The key that keeps an RPC server to those who started it.
//
//   options.key = random_key();  // told to the client by a way of its own, such as SSH
#pragma once

#include <string>

namespace edgepipe::rpc {

/// 32 hex digits, 128 random bits of the system's source.
std::string random_key();

}  // namespace edgepipe::rpc
