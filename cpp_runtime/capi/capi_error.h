// The last error of the C functions: each thread has its own text.
#pragma once

#include "edgepipe/status.h"

#define EP_EXPORT extern "C" __attribute__((visibility("default")))

namespace edgepipe::capi {

/// Keeps the status for ep_last_error() and returns its code as the C functions do: 0 is success.
int fail(const Status& status);

}  // namespace edgepipe::capi

/// Text of the calling thread's last failed call; valid until its next failed call.
EP_EXPORT const char* ep_last_error();

/// What a user can do about a failure with this code; static.
EP_EXPORT const char* ep_remedy(int code);
