#include "capi_error.h"

#include <string>

#include "edgepipe/remedy.h"

namespace edgepipe::capi {
namespace {

thread_local std::string last_error;

}  // namespace

int fail(const Status& status) {
  if (!status.ok()) last_error = status.message();
  return static_cast<int>(status.code());
}

}  // namespace edgepipe::capi

const char* ep_last_error() { return edgepipe::capi::last_error.c_str(); }

const char* ep_remedy(int code) {
  return edgepipe::remedy(static_cast<edgepipe::Code>(code)).data();
}
